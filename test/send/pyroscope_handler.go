// SPDX-License-Identifier: Apache-2.0 OR MIT

// The push handler that Pyroscope publishes: what a profile has to be for its server, which cannot
// be had as a module. Prints what it took.
package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"

	"connectrpc.com/connect"
	"github.com/google/pprof/profile"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
)

type handler struct{}

func (handler) Push(_ context.Context, request *connect.Request[pushv1.PushRequest]) (
	*connect.Response[pushv1.PushResponse], error) {
	for _, series := range request.Msg.Series {
		labels := ""
		for _, label := range series.Labels {
			labels += label.Name + "=" + label.Value + " "
		}
		for _, sample := range series.Samples {
			parsed, err := profile.Parse(bytes.NewReader(sample.RawProfile))
			if err == nil {
				err = parsed.CheckValid()
			}
			if err != nil {
				return nil, connect.NewError(connect.CodeInvalidArgument, err)
			}
			fmt.Println(labels+"samples:", len(parsed.Sample), parsed.SampleType[0].Type)
		}
	}
	return connect.NewResponse(&pushv1.PushResponse{}), nil
}

func main() {
	path, served := pushv1connect.NewPusherServiceHandler(handler{})
	mux := http.NewServeMux()
	mux.Handle(path, served)
	fmt.Println(http.ListenAndServe("127.0.0.1:"+os.Args[1], mux))
}
