package broker

import (
	"encoding/binary"
	"fmt"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxRequest is Kafka's default for socket.request.max.bytes.
const maxRequest = 100 << 20

// guarded closes connections that do not speak Kafka before kfake sees their
// bytes: it believes any length (an HTTP request is one of 1.2 GB) and panics at
// an unknown request key.
type guarded struct{ net.Listener }

func (g guarded) Accept() (net.Conn, error) {
	conn, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &guardedConn{Conn: conn}, nil
}

// guardedConn follows the frames of a connection: a big-endian uint32 length,
// then a request that starts with its key as a big-endian int16.
type guardedConn struct {
	net.Conn
	head []byte // of the frame: up to 4 bytes of length and 2 of key
	left int    // bytes of the frame after its head
}

func (c *guardedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		if skip := min(c.left, len(rest)); skip > 0 {
			rest, c.left = rest[skip:], c.left-skip
			continue
		}
		c.head, rest = append(c.head, rest[0]), rest[1:]
		if bad := c.checkHead(); bad != nil {
			c.Close()
			return 0, bad
		}
	}
	return n, err
}

func (c *guardedConn) checkHead() error {
	switch len(c.head) {
	case 4:
		if size := binary.BigEndian.Uint32(c.head); size < 8 || size > maxRequest {
			return fmt.Errorf("broker: a request of %d bytes: not a Kafka client", size)
		}
	case 6:
		if key := int16(binary.BigEndian.Uint16(c.head[4:])); kmsg.RequestForKey(key) == nil {
			return fmt.Errorf("broker: unknown request key %d: not a Kafka client", key)
		}
		c.left = int(binary.BigEndian.Uint32(c.head)) - 2
		c.head = c.head[:0]
	}
	return nil
}
