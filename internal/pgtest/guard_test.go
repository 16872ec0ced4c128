package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestPrivateDirEndsWhatIsNamedInIt(t *testing.T) {
	dir, remove, err := PrivateDir()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "read forever")
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if err := os.WriteFile(filepath.Join(dir, "program.pid"), fmt.Appendln(nil, cmd.Process.Pid), 0o644); err != nil {
		t.Fatal(err)
	}
	remove()
	if err := <-ended; err == nil {
		t.Error("the program has ended by itself")
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the directory is still there")
	}
}
