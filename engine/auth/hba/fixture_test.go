package hba

import (
	"net"
	"testing/fstest"
)

// memory is a machine with these files and two addresses.
func memory(files map[string]string) Source {
	all := fstest.MapFS{}
	for name, text := range files {
		all[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return Source{Files: all, Interfaces: func() ([]net.Addr, error) {
		return []net.Addr{
			&net.IPNet{IP: net.IPv4(192, 168, 7, 9), Mask: net.CIDRMask(24, 32)},
			&net.IPNet{IP: net.ParseIP("fd00::7:9"), Mask: net.CIDRMask(64, 128)},
		}, nil
	}}
}
