package metrics

import (
	"io"
	"os"
	"syscall"

	runtime "github.com/VictoriaMetrics/metrics"
)

// writeDescriptors writes process_max_fds and process_open_fds, as WriteFDMetrics
// does. That reads the directory of descriptors, which takes half of a scrape with
// 10 000 clients; since Linux 6.2 the directory's size is their number.
func writeDescriptors(to io.Writer) {
	dir, err := os.Stat("/proc/self/fd")
	var limit syscall.Rlimit
	if err != nil || dir.Size() == 0 || syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		runtime.WriteFDMetrics(to)
		return
	}
	runtime.WriteGaugeUint64(to, "process_max_fds", limit.Cur)
	runtime.WriteGaugeUint64(to, "process_open_fds", uint64(dir.Size()))
}
