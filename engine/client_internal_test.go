package engine

import "testing"

// There are thousands of clients: one more word, and the next size of Go's allocator
// would take 64 bytes more for each.
func TestSizeOfClients(t *testing.T) {
	if sizeOfClient > 512 {
		t.Errorf("a client has %d bytes", sizeOfClient)
	}
}
