package session

// Asked returns the value that the startup packet asks for by a setting's name
// in lower case, not judged yet.
func (j *Judge) Asked(name string) (value string, ok bool) {
	for i := range j.settings {
		if j.settings[i].Name == name {
			return j.settings[i].Value, true
		}
	}
	return "", false
}
