// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hangs in one of the ways a service does: `stuck WAY`. Says `stuck` and its pid when the poll has
//! begun and goes on until its standard input ends.
use std::io::Read;
use std::sync::Mutex;
use std::time::Duration;
use witness::multi_thread;

static LOCK: Mutex<()> = Mutex::new(());
const FOR_EVER: Duration = Duration::from_secs(100_000);

fn say_stuck() {
    println!("stuck {}", std::process::id());
}

/// Never returns, but for `yield`.
fn hang(way: &str) {
    match way {
        "mutex" => drop(LOCK.lock()),
        "read" => {
            let mut ends = [0; 2];
            let mut byte = 0u8;
            // SAFETY: two descriptors of a pipe of our own, one byte of our own.
            unsafe {
                assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
                libc::read(ends[0], (&mut byte as *mut u8).cast(), 1);
            }
        }
        "spin" => loop {
            std::hint::spin_loop()
        },
        _ => panic!("unknown way {way}"),
    }
}

async fn run(way: String) {
    match way.as_str() {
        "all-workers" => {
            for _ in 0..2 {
                tokio::spawn(async { hang("mutex") });
            }
            say_stuck();
        }
        "in-place" => {
            tokio::spawn(async {
                say_stuck();
                tokio::task::block_in_place(|| hang("read"))
            });
        }
        "blocking" => {
            tokio::task::spawn_blocking(|| {
                say_stuck();
                hang("read")
            });
        }
        "idle" => say_stuck(),
        _ => {
            tokio::spawn(async move {
                say_stuck();
                hang(&way)
            });
        }
    }
    std::future::pending::<()>().await
}

fn main() {
    let way = std::env::args().nth(1).expect("stuck WAY");
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0)
    });
    let (locked, is_locked) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _guard = LOCK.lock();
        locked.send(()).unwrap();
        std::thread::sleep(FOR_EVER)
    });
    is_locked.recv().unwrap();
    multi_thread(2).enable_all().build().unwrap().block_on(run(way))
}
