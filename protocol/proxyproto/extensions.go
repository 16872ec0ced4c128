package proxyproto

import (
	"encoding/binary"
	"hash/crc32"
)

// typeCRC32C is the one extension that is read: the checksum of the header.
const typeCRC32C = 0x03

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	blank      = make([]byte, crc32.Size) // what stands in the place of the checksum while it is computed
)

// checkExtensions walks the extensions (type 1 byte, length 2, value) of a whole
// header from offset at, and verifies the checksum where there is one.
func checkExtensions(header []byte, at int) error {
	for at < len(header) {
		if len(header)-at < 3 {
			return ErrTLV
		}
		typ, size := header[at], int(binary.BigEndian.Uint16(header[at+1:]))
		at += 3
		if size > len(header)-at {
			return ErrTLV
		}
		if typ == typeCRC32C {
			if size != crc32.Size {
				return ErrTLV
			}
			if checksum(header, at) != binary.BigEndian.Uint32(header[at:]) {
				return ErrChecksum
			}
		}
		at += size
	}
	return nil
}

// checksum is that of the header with zeros in the place of the checksum.
func checksum(header []byte, at int) uint32 {
	sum := crc32.Update(0, castagnoli, header[:at])
	sum = crc32.Update(sum, castagnoli, blank)
	return crc32.Update(sum, castagnoli, header[at+crc32.Size:])
}
