// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An ordinary Tokio program that does what standard input says, one command a line, and answers
//! each with one line when it is done. Every task is counted; test/journey.py knows the commands.
use std::future::Future;
use std::hint::black_box;
use std::io::{BufRead, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{mpsc, Arc};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use witness::{counted, multi_thread, self_wake, POLLS};

const WORKERS: u64 = 2;
static IS_COMPUTING: AtomicBool = AtomicBool::new(false);

fn answer(line: String) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

fn task_id() -> String {
    tokio::task::id().to_string()
}

/// Blocks its worker until the other end of the socket is shut down.
#[inline(never)]
fn block_here(mut socket: UnixStream) {
    let mut byte = [0u8];
    let _ = socket.read(&mut byte); // the line that blocks
}

async fn hang(socket: UnixStream) {
    answer(format!("hang {}", task_id()));
    block_here(socket);
}

/// Calls nothing: all that it takes is its own.
#[inline(never)]
fn compute_here() {
    let (mut sum, mut left) = (1u64, 200_000u64);
    while left != 0 {
        sum = black_box(sum << 1 ^ left); // the line that computes
        left -= 1;
    }
}

async fn compute() {
    answer(format!("compute {}", task_id()));
    while IS_COMPUTING.load(Relaxed) {
        compute_here();
        tokio::task::yield_now().await;
    }
}

#[inline(never)]
fn leak_here(bytes: usize) {
    let block = black_box(Vec::<u8>::with_capacity(bytes)); // the line that leaks
    std::mem::forget(block);
}

async fn leak(count: usize, bytes: usize) {
    for _ in 0..count {
        leak_here(bytes);
    }
}

#[inline(never)]
async fn wait_here(semaphore: Arc<Semaphore>) {
    let _permit = semaphore.acquire().await; // the line that waits
}

/// Answers each byte with the next one.
async fn connection(mut socket: TcpStream) {
    let mut byte = [0u8];
    while socket.read_exact(&mut byte).await.is_ok() {
        byte[0] = byte[0].wrapping_add(1);
        if socket.write_all(&byte).await.is_err() {
            return;
        }
    }
}

/// Accepts so many connections and ends with the last of them.
async fn serve(port: mpsc::Sender<u16>, count: usize) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    port.send(listener.local_addr().unwrap().port()).unwrap();
    let mut connections = Vec::new();
    for _ in 0..count {
        let (socket, _) = listener.accept().await.unwrap();
        connections.push(tokio::spawn(counted(connection(socket))));
    }
    for task in connections {
        task.await.unwrap();
    }
}

/// What a later command ends.
struct Journey {
    runtime: Runtime,
    semaphore: Arc<Semaphore>,
    /// Shut down, they end the polls that hang.
    sockets: Vec<UnixStream>,
    tasks: Vec<JoinHandle<()>>,
}

impl Journey {
    fn spawn(&mut self, future: impl Future<Output = ()> + Send + 'static) {
        self.tasks.push(self.runtime.spawn(counted(future)));
    }

    /// Until it is over; it answers with what was counted from the start.
    fn run(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.runtime.block_on(self.runtime.spawn(counted(future))).unwrap();
        self.say_done();
    }

    fn say_done(&self) {
        answer(format!("done {}", POLLS.load(Relaxed)));
    }

    /// All that began ends.
    fn finish(&mut self) {
        IS_COMPUTING.store(false, Relaxed);
        for socket in self.sockets.drain(..) {
            socket.shutdown(Shutdown::Both).unwrap();
        }
        self.semaphore.add_permits(self.tasks.len());
        for task in self.tasks.drain(..) {
            self.runtime.block_on(task).unwrap();
        }
        self.semaphore = Arc::new(Semaphore::new(0));
        self.say_done();
    }

    /// `hang` and `compute` answer themselves, out of their first poll.
    fn obey(&mut self, command: &str, numbers: &[usize]) {
        match (command, numbers) {
            ("polls", &[count]) => self.run(self_wake(count as u64 - 1)),
            ("leak", &[count, bytes]) => self.run(leak(count, bytes)),
            ("compute", []) => {
                IS_COMPUTING.store(true, Relaxed);
                self.spawn(compute());
            }
            ("rest", []) => {
                IS_COMPUTING.store(false, Relaxed);
                self.runtime.block_on(self.tasks.pop().unwrap()).unwrap();
                self.say_done();
            }
            ("hang", []) => {
                let (ours, theirs) = UnixStream::pair().unwrap();
                self.sockets.push(ours);
                self.spawn(hang(theirs));
            }
            ("wait", &[count]) => {
                for _ in 0..count {
                    self.spawn(wait_here(self.semaphore.clone()));
                }
                answer("wait".to_string());
            }
            ("wake", []) => {
                self.semaphore.add_permits(self.tasks.len());
                answer("wake".to_string());
            }
            ("serve", &[connections]) => {
                let (sender, port) = mpsc::channel();
                self.spawn(serve(sender, connections));
                answer(format!("serve {}", port.recv().unwrap()));
            }
            ("finish", []) => self.finish(),
            _ => panic!("unknown command {command} {numbers:?}"),
        }
    }
}

fn main() {
    let mut journey = Journey {
        runtime: multi_thread(WORKERS).enable_all().build().unwrap(),
        semaphore: Arc::new(Semaphore::new(0)),
        sockets: Vec::new(),
        tasks: Vec::new(),
    };
    answer(format!("journey {}", std::process::id()));
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let mut words = line.split_whitespace();
        let command = words.next().unwrap_or_default();
        let numbers: Vec<usize> = words.map(|word| word.parse().unwrap()).collect();
        journey.obey(command, &numbers);
    }
    // Nothing is cancelled: that would be a poll that no future is asked for.
    journey.finish();
}
