// The program a runtime executes, for hosts that have no Python, and where 15 ms a pod are much: it does what
// ../shim.py does, in the same words. tests/node/cni holds both to the same tests.
//
// It is linked statically and imports what starts in 1 ms (no os, no net); an image builds it once for each kind of
// processor. socketPlace is written over by trackbed.node.rails.install.
package main

import (
	"bytes"
	"encoding/binary"
	"strings"
	"syscall"
)

const (
	timeoutSeconds = 60
	maxBytes       = 1 << 20 // the agent refuses what is longer
)

// socketPlace has the 107 bytes that sun_path of unix(7) has beside its NUL.
var socketPlace = "@trackbed-agent-socket@...................................................................................."

var versions = []string{"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"}

type hungUp struct{}

func (hungUp) Error() string { return "it closed the connection half way, or has no end" }

func main() {
	config := standardInput()
	version := versions[len(versions)-1]
	for _, known := range versions {
		if bytes.Contains(config, []byte(`"`+known+`"`)) {
			version = known
			break
		}
	}
	if command, _ := syscall.Getenv("CNI_COMMAND"); command == "VERSION" {
		supported := strings.Join(versions, `","`)
		end(0, []byte(`{"cniVersion":"`+version+`","supportedVersions":["`+supported+"\"]}\n"))
	}
	socket := strings.TrimRight(socketPlace, "\x00")
	status, answer, err := ask(socket, config)
	if err != nil {
		end(1, []byte(`{"cniVersion":"`+version+`","code":11,"msg":"the Trackbed agent does not answer on `+socket+": "+
			err.Error()+`","details":"is it running? try `+"`trackbed agent status`"+
			"; a later DEL or ADD puts right what was begun\"}\n"))
	}
	end(status, answer)
}

func standardInput() []byte {
	var read []byte
	part := make([]byte, 1<<16)
	for len(read) <= maxBytes {
		count, err := again(func() (int, error) { return syscall.Read(0, part) })
		if err != nil || count == 0 {
			break
		}
		read = append(read, part[:count]...)
	}
	return read
}

// ask returns the exit status and what to print.
func ask(socket string, config []byte) (int, []byte, error) {
	agent, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, err
	}
	limit := syscall.Timeval{Sec: timeoutSeconds}
	for _, option := range []int{syscall.SO_RCVTIMEO, syscall.SO_SNDTIMEO} {
		if err = syscall.SetsockoptTimeval(agent, syscall.SOL_SOCKET, option, &limit); err != nil {
			return 0, nil, err
		}
	}
	if err = syscall.Connect(agent, &syscall.SockaddrUnix{Name: socket}); err != nil {
		return 0, nil, err
	}
	if err = write(agent, frame(config)); err != nil {
		return 0, nil, err
	}
	head := make([]byte, 5)
	if err = exactly(agent, head); err != nil {
		return 0, nil, err
	}
	length := binary.BigEndian.Uint32(head)
	if length > maxBytes<<4 {
		return 0, nil, hungUp{}
	}
	text := make([]byte, length)
	return int(head[4]), text, exactly(agent, text)
}

func frame(config []byte) []byte {
	told := make([]byte, 4)
	for _, variable := range syscall.Environ() {
		if strings.HasPrefix(variable, "CNI_") {
			told = append(append(told, variable...), 0)
		}
	}
	told = append(append(told, 0), config...)
	binary.BigEndian.PutUint32(told, uint32(len(told)-4))
	return told
}

func exactly(from int, into []byte) error {
	for len(into) > 0 {
		count, err := again(func() (int, error) { return syscall.Read(from, into) })
		if err != nil {
			return err
		}
		if count == 0 {
			return hungUp{}
		}
		into = into[count:]
	}
	return nil
}

func write(to int, what []byte) error {
	for len(what) > 0 {
		count, err := again(func() (int, error) { return syscall.Write(to, what) })
		if err != nil {
			return err
		}
		what = what[count:]
	}
	return nil
}

// again repeats a call that a signal interrupted: the runtime of Go sends some to itself.
func again(call func() (int, error)) (int, error) {
	for {
		count, err := call()
		if err != syscall.EINTR {
			return count, err
		}
	}
}

func end(status int, text []byte) {
	_ = write(1, text)
	syscall.Exit(status)
}
