package auth

// recent is a map of at most 2*size entries that forgets what was not used for
// longest, roughly. Owner: whoever holds it, under its lock.
//
// Invariants: young holds what was put or found since the last turn, old what was
// used in the turn before and not since; neither has more than size entries. A
// full young map becomes old, and what was old is forgotten. So the size entries
// used last are always there, and no entry carries links or a time.
type recent[K comparable, V any] struct {
	size       int
	young, old map[K]V
}

func (r *recent[K, V]) get(k K) (v V, ok bool) {
	if v, ok = r.young[k]; ok {
		return v, true
	}
	if v, ok = r.old[k]; ok {
		r.put(k, v)
	}
	return v, ok
}

func (r *recent[K, V]) put(k K, v V) {
	delete(r.old, k)
	_, known := r.young[k]
	switch {
	case r.young == nil:
		r.young = make(map[K]V)
	case !known && len(r.young) == r.size:
		r.old, r.young = r.young, make(map[K]V)
	}
	r.young[k] = v
}

func (r *recent[K, V]) remove(k K) {
	delete(r.young, k)
	delete(r.old, k)
}

func (r *recent[K, V]) len() int { return len(r.young) + len(r.old) }
