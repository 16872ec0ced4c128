package pgtest

import (
	"errors"
	"os"
)

// PrivateDir makes a directory like that of a Server, for programs in front of a PostgreSQL that is not ours: it belongs to
// the user under which those run that refuse to run as root, and its watchdog ends what the .pid files in it name and removes
// it when our process ends. remove does so at once.
func PrivateDir() (dir string, remove func(), err error) {
	if dir, err = unprivileged().privateDir(); err != nil {
		return "", nil, err
	}
	w, err := watch(dir)
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, w.release, nil
}
