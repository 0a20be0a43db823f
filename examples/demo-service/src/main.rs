// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small order service, written the way such services are. It serves on an ephemeral port of
//! 127.0.0.1, starts its own bounded load (`demo-load`, beside this program) and ends with it.
//!
//!     demo-service [--load-seconds N]     default 5; 0 serves until it is killed

mod report;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::sync::RwLock;

/// How long the spooler's blocking call takes. It stands for any driver without an async interface,
/// called from a handler that forgot `spawn_blocking`.
const SPOOLER_WRITE: Duration = Duration::from_millis(120);

#[derive(Clone, Serialize)]
struct Order {
    id: u32,
    item: String,
    quantity: u32,
}

type Orders = Arc<RwLock<BTreeMap<u32, Order>>>;

async fn index() -> &'static str {
    "orders: /orders /orders/{id} /export\n"
}

async fn list(State(orders): State<Orders>) -> Json<Vec<Order>> {
    Json(orders.read().await.values().cloned().collect())
}

async fn order(
    State(orders): State<Orders>,
    Path(id): Path<u32>,
) -> Result<Json<Order>, StatusCode> {
    // The database is two milliseconds away.
    tokio::time::sleep(Duration::from_millis(2)).await;
    let orders = orders.read().await;
    orders.get(&id).cloned().map(Json).ok_or(StatusCode::NOT_FOUND)
}

async fn export(State(orders): State<Orders>) -> String {
    let count = orders.read().await.len();
    // The mistake that the recording is to find: a blocking call on a worker thread.
    std::thread::sleep(SPOOLER_WRITE);
    format!("{count} orders exported\n")
}

fn stock() -> Orders {
    let orders = (1..=64u32).map(|id| {
        let item = format!("part-{:03}", id * 7 % 100);
        (id, Order { id, item, quantity: id % 9 + 1 })
    });
    Arc::new(RwLock::new(orders.collect()))
}

fn load_seconds() -> Result<u64, String> {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next(), arguments.next()) {
        (None, _, _) => Ok(5),
        (Some("--load-seconds"), Some(text), None) => {
            text.parse().map_err(|_| format!("--load-seconds: '{text}' is not a number of seconds"))
        }
        _ => Err("usage: demo-service [--load-seconds N]".into()),
    }
}

/// Ends when the load has ended: that is when the service stops. Without load it never does.
async fn load(address: SocketAddr, seconds: u64) -> io::Result<()> {
    if seconds == 0 {
        return std::future::pending().await;
    }
    let program = std::env::current_exe()?.with_file_name("demo-load");
    let status =
        Command::new(program).arg(address.to_string()).arg(seconds.to_string()).status().await?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!("demo-load: {status}")))
    }
}

async fn serve(seconds: u64) -> io::Result<()> {
    let orders = stock();
    tokio::spawn(report::render(orders.clone()));

    let routes = Router::new()
        .route("/", get(index))
        .route("/orders", get(list))
        .route("/orders/{id}", get(order))
        .route("/export", get(export))
        .with_state(orders);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    println!("demo-service: listening on http://{address}");
    let server = tokio::spawn(async move { axum::serve(listener, routes).await });
    tokio::select! {
        ended = load(address, seconds) => ended,
        broken = server => broken.map_err(io::Error::other)?,
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() -> std::process::ExitCode {
    let outcome = match load_seconds() {
        Ok(seconds) => serve(seconds).await.map_err(|error| error.to_string()),
        Err(usage) => Err(usage),
    };
    match outcome {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("demo-service: {message}");
            std::process::ExitCode::FAILURE
        }
    }
}
