// SPDX-License-Identifier: Apache-2.0 OR MIT

// echo CONNECTIONS [RING-BYTES FILE] - the echo server of bench/tokio in Go: prints its port and
// serves until that many clients have come and gone. With RING-BYTES the runtime's FlightRecorder
// runs from before the first connection; what it holds at the end goes to FILE.
package main

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/trace"
	"strconv"
	"sync"
	"time"
)

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}

func serveOne(connection net.Conn) {
	defer connection.Close()
	buffer := make([]byte, 4096)
	for {
		count, err := connection.Read(buffer)
		if err != nil {
			return
		}
		if _, err := connection.Write(buffer[:count]); err != nil {
			return
		}
	}
}

func serve(connections int) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	fail(err)
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	var served sync.WaitGroup
	for range connections {
		connection, err := listener.Accept()
		fail(err)
		served.Go(func() { serveOne(connection) }) // Go sets TCP_NODELAY by itself
	}
	served.Wait()
}

// MinAge is longer than any run, so that the bytes alone decide what is kept, as in a ring.
func record(text string) *trace.FlightRecorder {
	bytes, err := strconv.ParseUint(text, 10, 64)
	fail(err)
	recorder := trace.NewFlightRecorder(
		trace.FlightRecorderConfig{MinAge: time.Hour, MaxBytes: bytes})
	fail(recorder.Start())
	return recorder
}

func cut(recorder *trace.FlightRecorder, path string) {
	file, err := os.Create(path)
	fail(err)
	_, err = recorder.WriteTo(file)
	fail(err)
	fail(file.Close())
	recorder.Stop()
}

func main() {
	if len(os.Args) != 2 && len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: echo CONNECTIONS [RING-BYTES FILE]")
		os.Exit(2)
	}
	connections, err := strconv.Atoi(os.Args[1])
	fail(err)
	runtime.GOMAXPROCS(1) // one worker, like the others
	if len(os.Args) == 2 {
		serve(connections)
		return
	}
	recorder := record(os.Args[2])
	serve(connections)
	cut(recorder, os.Args[3])
}
