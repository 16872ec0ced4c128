package reactor

import (
	"errors"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// State: ring is an io_uring instance that sends all writes of a round in one
// system call. Owner: the loop.
//
// Invariants:
//   - between two calls of send nothing is under way: every operation has been
//     answered, so the kernel refers to no memory of ours
//   - the sockets are non-blocking and each operation carries MSG_DONTWAIT: the
//     kernel answers it while it is submitted and never puts it off
//
// Sources: io_uring_setup(2), io_uring_enter(2), io_uring(7); the layouts are
// those of include/uapi/linux/io_uring.h. Containers often forbid io_uring
// (seccomp), administrators may (kernel.io_uring_disabled): then there is none.

const (
	ringOpNothing    = 0      // IORING_OP_NOP
	ringOpSend       = 26     // IORING_OP_SEND
	ringGetEvents    = 1      // IORING_ENTER_GETEVENTS
	ringSingleMap    = 1 << 0 // IORING_FEAT_SINGLE_MMAP
	ringNoDrop       = 1 << 1 // IORING_FEAT_NODROP
	ringNativeWorker = 1 << 9 // IORING_FEAT_NATIVE_WORKERS: Linux 5.12
	ringOffsetSQEs   = 0x10000000

	ringFeatures = ringSingleMap | ringNoDrop | ringNativeWorker
)

var errRingOld = errors.New("this kernel's io_uring is too old (Linux 5.12 is needed)")

// submission is struct io_uring_sqe as far as a send needs it.
type submission struct {
	opcode   uint8
	flags    uint8
	ioprio   uint16
	fd       int32
	offset   uint64
	addr     uint64
	size     uint32
	msgFlags uint32
	userData uint64
	_        [3]uint64
}

// completion is struct io_uring_cqe.
type completion struct {
	userData uint64
	result   int32
	flags    uint32
}

// ringParams is struct io_uring_params.
type ringParams struct {
	sqEntries, cqEntries, flags, sqThreadCPU, sqThreadIdle, features, wqFD uint32
	_                                                                      [3]uint32

	sq struct {
		head, tail, mask, entries, flags, dropped, array, _ uint32
		userAddr                                            uint64
	}
	cq struct {
		head, tail, mask, entries, overflow, entriesAt, flags, _ uint32
		userAddr                                                 uint64
	}
}

type ring struct {
	fd          int
	rings, sqes []byte // mapped

	submissions    []submission
	completions    []completion
	sqHead, sqTail *uint32
	cqHead, cqTail *uint32
	sqMask, cqMask uint32
}

// openRing makes a ring for outboxEntries operations at a time.
func openRing() (*ring, error) {
	var p ringParams
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, outboxEntries, uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, os.NewSyscallError("io_uring_setup", errno)
	}
	r := &ring{fd: int(fd)}
	unix.CloseOnExec(r.fd)
	if p.features&ringFeatures != ringFeatures {
		r.close()
		return nil, errRingOld
	}
	if err := r.mapRings(&p); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *ring) mapRings(p *ringParams) (err error) {
	size := max(p.sq.array+p.sqEntries*4, p.cq.entriesAt+p.cqEntries*uint32(unsafe.Sizeof(completion{})))
	if r.rings, err = r.mmap(0, int(size)); err != nil {
		return err
	}
	if r.sqes, err = r.mmap(ringOffsetSQEs, int(p.sqEntries)*int(unsafe.Sizeof(submission{}))); err != nil {
		return err
	}
	word := func(offset uint32) *uint32 { return (*uint32)(unsafe.Pointer(&r.rings[offset])) }
	r.submissions = unsafe.Slice((*submission)(unsafe.Pointer(&r.sqes[0])), p.sqEntries)
	r.completions = unsafe.Slice((*completion)(unsafe.Pointer(&r.rings[p.cq.entriesAt])), p.cqEntries)
	r.sqHead, r.sqTail, r.sqMask = word(p.sq.head), word(p.sq.tail), *word(p.sq.mask)
	r.cqHead, r.cqTail, r.cqMask = word(p.cq.head), word(p.cq.tail), *word(p.cq.mask)
	order := unsafe.Slice(word(p.sq.array), p.sqEntries)
	for i := range order {
		order[i] = uint32(i) // the queue's order is that of the submissions
	}
	return nil
}

func (r *ring) mmap(offset int64, size int) ([]byte, error) {
	mem, err := unix.Mmap(r.fd, offset, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	return mem, os.NewSyscallError("mmap", err)
}

// send sends the entries, which are at most outboxEntries, and sets their
// results. It returns how many it has dealt with: fewer than all only if the
// kernel lacked memory, and the rest is as it was.
func (r *ring) send(b *outbox, entries []entry) (done int) {
	tail := *r.sqTail
	for i := range entries {
		e := &entries[i]
		at := &r.submissions[(tail+uint32(i))&r.sqMask]
		*at = submission{opcode: ringOpNothing, userData: uint64(i)}
		if e.size > 0 {
			at.opcode, at.fd = ringOpSend, e.fd
			at.addr, at.size = uint64(uintptr(unsafe.Pointer(&b.arena[e.from]))), uint32(e.size)
			at.msgFlags = unix.MSG_NOSIGNAL | unix.MSG_DONTWAIT
		}
	}
	atomic.StoreUint32(r.sqTail, tail+uint32(len(entries)))
	_, _, _ = unix.RawSyscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(len(entries)), 0, 0, 0, 0)
	done = int(atomic.LoadUint32(r.sqHead) - tail)
	atomic.StoreUint32(r.sqTail, tail+uint32(done)) // what was not taken is withdrawn
	for left := done; left > 0; {
		n := r.collect(entries)
		if left -= n; n == 0 {
			_, _, _ = unix.RawSyscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), 0, uintptr(left), ringGetEvents, 0, 0)
		}
	}
	return done
}

// collect takes the answers that are there.
func (r *ring) collect(entries []entry) (n int) {
	head, tail := *r.cqHead, atomic.LoadUint32(r.cqTail)
	for ; head != tail; head++ {
		c := &r.completions[head&r.cqMask]
		entries[c.userData].result = c.result
		n++
	}
	atomic.StoreUint32(r.cqHead, head)
	return n
}

func (r *ring) close() {
	for _, mem := range [][]byte{r.rings, r.sqes} {
		if mem != nil {
			_ = unix.Munmap(mem)
		}
	}
	_ = unix.Close(r.fd)
}
