// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bounded load for demo-service: a few connections, plain threads, no runtime.
//!
//!     demo-load ADDRESS SECONDS

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

const CONNECTIONS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(3);
/// Of the first connection alone: the others never ask for it.
const EXPORT_EVERY: Duration = Duration::from_millis(800);

fn request(stream: &mut BufReader<TcpStream>, path: &str) -> io::Result<()> {
    write!(stream.get_mut(), "GET {path} HTTP/1.1\r\nHost: demo\r\n\r\n")?;
    let mut line = String::new();
    stream.read_line(&mut line)?;
    if !line.starts_with("HTTP/1.1 200") {
        return Err(io::Error::other(format!("GET {path}: {}", line.trim_end())));
    }
    let mut body_bytes = 0u64;
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let header = line.trim_end().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            body_bytes = value.trim().parse().map_err(io::Error::other)?;
        }
    }
    io::copy(&mut stream.by_ref().take(body_bytes), &mut io::sink())?;
    Ok(())
}

fn connection(address: SocketAddr, number: u32, end: Instant) -> io::Result<u64> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    let mut next_export = Instant::now() + EXPORT_EVERY;
    let mut sent = 0u64;
    while Instant::now() < end {
        if number == 0 && Instant::now() >= next_export {
            request(&mut stream, "/export")?;
            next_export += EXPORT_EVERY;
            sent += 1;
        }
        let path = match sent % 8 {
            0 => "/orders".to_string(),
            1 => "/".to_string(),
            turn => format!("/orders/{}", u64::from(number) * 5 + turn),
        };
        request(&mut stream, &path)?;
        sent += 1;
        thread::sleep(PAUSE);
    }
    Ok(sent)
}

fn run() -> Result<u64, String> {
    let mut arguments = std::env::args().skip(1);
    let (Some(address), Some(seconds), None) =
        (arguments.next(), arguments.next(), arguments.next())
    else {
        return Err("usage: demo-load ADDRESS SECONDS".into());
    };
    let address: SocketAddr = address.parse().map_err(|_| format!("'{address}' is not IP:PORT"))?;
    let seconds: u64 =
        seconds.parse().map_err(|_| format!("'{seconds}' is not a number of seconds"))?;
    let end = Instant::now() + Duration::from_secs(seconds);
    let threads: Vec<_> = (0..CONNECTIONS)
        .map(|number| thread::spawn(move || connection(address, number, end)))
        .collect();
    let mut sent = 0;
    for thread in threads {
        let outcome = thread.join().map_err(|_| "a connection panicked".to_string())?;
        sent += outcome.map_err(|error| error.to_string())?;
    }
    Ok(sent)
}

fn main() -> std::process::ExitCode {
    match run() {
        Ok(sent) => {
            println!("demo-load: {sent} requests over {CONNECTIONS} connections");
            std::process::ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("demo-load: {message}");
            std::process::ExitCode::FAILURE
        }
    }
}
