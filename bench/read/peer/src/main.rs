// SPDX-License-Identifier: Apache-2.0 OR MIT
//! kymo-bench-read-peer decode FILE: decodes a raw trace, counts its events and looks at every
//! field. kymo-bench-read-peer encode: ns of the encoder an event, a poll pair and a wake, each the
//! median of some rounds. kymo-bench-read-peer count DIR: events of all raw traces below DIR.

use dial9_trace_format::decoder::Decoder;
use dial9_trace_format::encoder::Encoder;
use dial9_trace_format::types::FieldValueRef;
use dial9_trace_format::TraceEvent;
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 15;
const TURNS: u64 = 200_000;

#[derive(TraceEvent)]
#[traceevent(wire_slot)]
struct PollStart {
    #[traceevent(timestamp)]
    timestamp_ns: u64,
    worker_id: u64,
    local_queue: u64,
    task_id: u64,
    spawn_loc: u64,
}

#[derive(TraceEvent)]
#[traceevent(wire_slot)]
struct PollEnd {
    #[traceevent(timestamp)]
    timestamp_ns: u64,
    worker_id: u64,
}

#[derive(TraceEvent)]
#[traceevent(wire_slot)]
struct Wake {
    #[traceevent(timestamp)]
    timestamp_ns: u64,
    waker_task_id: u64,
    woken_task_id: u64,
    target_worker: u64,
}

fn decode(bytes: &[u8]) -> u64 {
    let (mut events, mut sum) = (0u64, 0u64);
    Decoder::new(bytes)
        .expect("not a trace")
        .for_each_event(|event| {
            events += 1;
            sum = sum.wrapping_add(event.timestamp_ns);
            for value in event.fields {
                if let FieldValueRef::Varint(number) = value {
                    sum = sum.wrapping_add(*number);
                }
            }
        })
        .expect("the trace does not decode");
    black_box(sum);
    events
}

fn count(directory: &std::path::Path) -> u64 {
    let mut events = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            events += count(&path);
        } else if path.extension().is_some_and(|end| end == "bin") {
            events += decode(&std::fs::read(&path).unwrap());
        }
    }
    events
}

/// CPU time: on a busy machine the wall clock would measure the scheduler.
fn cpu_ns() -> f64 {
    let mut now: libc::timespec = unsafe { std::mem::zeroed() };
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

/// Median ns of one turn, the read of the clock included, as the recorder does it.
fn turn_ns(mut turn: impl FnMut(&mut Encoder, &dyn Fn() -> u64, u64)) -> f64 {
    let start = Instant::now();
    let now = || start.elapsed().as_nanos() as u64;
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let mut encoder = Encoder::new();
            let begin = cpu_ns();
            for index in 0..TURNS {
                turn(&mut encoder, &now, index);
            }
            let spent = cpu_ns() - begin;
            black_box(encoder.finish());
            spent / TURNS as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn poll_start(encoder: &mut Encoder, timestamp_ns: u64, index: u64) {
    let task_id = 1 + index % 1000;
    let event = PollStart { timestamp_ns, worker_id: 0, local_queue: 0, task_id, spawn_loc: 1 };
    encoder.write(&event).unwrap();
}

fn encode() {
    let event = turn_ns(|encoder, now, _| {
        encoder.write(&PollEnd { timestamp_ns: now(), worker_id: 0 }).unwrap();
    });
    let pair = turn_ns(|encoder, now, index| {
        poll_start(encoder, now(), index);
        encoder.write(&PollEnd { timestamp_ns: now(), worker_id: 0 }).unwrap();
    });
    let wake = turn_ns(|encoder, now, index| {
        let woken_task_id = 1 + index % 1000;
        let timestamp_ns = now();
        let event = Wake { timestamp_ns, waker_task_id: 0, woken_task_id, target_worker: 0 };
        encoder.write(&event).unwrap();
    });
    println!("{{\"event\":{event:.3},\"pair\":{pair:.3},\"wake\":{wake:.3}}}");
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["encode"] => encode(),
        ["decode", file] => {
            println!("{{\"events\":{}}}", decode(&std::fs::read(file).expect("cannot read")));
        }
        ["count", directory] => println!("{{\"events\":{}}}", count(directory.as_ref())),
        _ => {
            eprintln!("usage: kymo-bench-read-peer encode | decode FILE | count DIR");
            std::process::exit(2);
        }
    }
}
