// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A hyper server on stable Tokio: a library polls its connections, and each is seen.
//!
//!     KYMO_MODE=stream KYMO_TRACE_DIR=traces cargo run --bin hyper_server && kymo report traces
use std::convert::Infallible;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

const CONNECTIONS: usize = 8;
const REQUESTS: usize = 50;

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    tokio::task::yield_now().await;
    Ok(Response::new(Full::new(Bytes::from_static(b"hello"))))
}

async fn serve(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(
            http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(hello)),
        );
    }
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    kymo::init();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(serve(listener));
    let client =
        std::thread::spawn(move || kymo_examples::load(address, "/", CONNECTIONS, REQUESTS));

    while !client.is_finished() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("{}", client.join().expect("the client panicked"));
    server.abort();
    Ok(())
}
