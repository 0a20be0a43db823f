// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An axum service on stable Tokio, configured by the environment, that ends gracefully at SIGTERM
//! and seals its trace. With `--load` it asks itself 400 times over 4 connections, then ends.
//!
//!     KYMO_MODE=stream KYMO_TRACE_DIR=traces cargo run --bin service -- --load
//!     kymo report traces
use std::time::Duration;

use axum::routing::get;
use axum::{Json, Router};
use tokio::net::TcpListener;
use tokio::signal::unix::{signal, SignalKind};

const CONNECTIONS: usize = 4;
const REQUESTS: usize = 100;

async fn orders() -> Json<Vec<u64>> {
    kymo::request("GET /orders")
        .run(async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            Json((0..10).collect())
        })
        .await
}

/// What the recorder does, for the operator.
async fn status() -> String {
    format!("{:#?}\n", kymo::Status::now())
}

/// A trace of the last seconds, made while the service continues.
async fn dump() -> Result<String, String> {
    match kymo::dump().reason("asked").last(Duration::from_secs(10)).await {
        Ok(made) => Ok(format!("{}\n", made.path.display())),
        Err(why) => Err(format!("{why}\n")),
    }
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    kymo::init();
    let app = Router::new()
        .route("/orders", get(orders))
        .route("/status", get(status))
        .route("/dump", get(dump));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let mut terminated = signal(SignalKind::terminate())?;
    let is_loaded = std::env::args().any(|argument| argument == "--load");
    let until = async move {
        if is_loaded {
            let client = std::thread::spawn(move || {
                println!("{}", kymo_examples::load(address, "/orders", CONNECTIONS, REQUESTS));
            });

            while !client.is_finished() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        } else {
            println!("http://{address}/orders /status /dump");
            terminated.recv().await;
        }
    };

    axum::serve(listener, app).with_graceful_shutdown(until).await?;
    kymo::shutdown(Duration::from_secs(5)).unwrap_or_else(|why| eprintln!("kymo: {why}"));
    Ok(())
}
