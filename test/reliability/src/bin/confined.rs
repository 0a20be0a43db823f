// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `confined WAY [DIRECTORY]`: gives up what a recorder might need, then runs its first task.
//! WAY: none; root DIRECTORY; user; prctl, syscall or raw, a filter that kills for every call but
//! those this program makes, installed by that route; raw-single, the same on a current-thread
//! runtime; child WAY, in a forked child; both WAY, there and then in the parent. Prints the number
//! of polls, exits with 77 where the system refuses.
use std::arch::asm;
use std::ffi::{c_char, c_int, c_long, c_ulong, CString};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

extern "C" {
    fn chroot(path: *const c_char) -> c_int;
    fn chdir(path: *const c_char) -> c_int;
    fn setgid(id: u32) -> c_int;
    fn setuid(id: u32) -> c_int;
    fn fork() -> c_int;
    fn waitpid(id: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn prctl(option: c_int, ...) -> c_int;
    fn syscall(number: c_long, ...) -> c_long;
}

const NOBODY: u32 = 65534;
const PR_SET_SECCOMP: c_int = 22;
const PR_SET_NO_NEW_PRIVS: c_int = 38;
const SECCOMP_FILTER: c_ulong = 2;
const SYS_PRCTL: u32 = 157;
const SYS_MADVISE: u32 = 28;
const PR_SET_NAME: u32 = 15;
const MADV_DONTNEED: u32 = 4;
const SYS_SECCOMP: c_long = 317;
/// read write close mmap mprotect munmap brk rt_sigaction rt_sigprocmask sched_yield clone exit
/// fcntl sigaltstack futex sched_getaffinity epoll_wait exit_group epoll_ctl set_robust_list
/// eventfd2 epoll_create1 getrandom rseq clone3
const ALLOWED: [u32; 25] = [
    0, 1, 3, 9, 10, 11, 12, 13, 14, 24, 56, 60, 72, 131, 202, 204, 232, 231, 233, 273, 290, 291,
    318, 334, 435,
];
/// What std asks for in a new thread.
const SYS_GETTID: u32 = 186;

#[repr(C)]
#[derive(Clone, Copy)]
struct Step {
    code: u16,
    if_true: u8,
    if_false: u8,
    value: u32,
}

#[repr(C)]
struct Program {
    count: u16,
    steps: *const Step,
}

fn filter(is_single: bool) -> Vec<Step> {
    let load = |at| Step { code: 0x20, if_true: 0, if_false: 0, value: at };
    let equals = |value, if_false| Step { code: 0x15, if_true: 0, if_false, value };
    let answer = |value| Step { code: 0x06, if_true: 0, if_false: 0, value };
    let (allow, kill) = (answer(0x7fff_0000), answer(0x8000_0000));
    let mut steps = vec![load(0)];
    let for_threads = (!is_single).then_some(SYS_GETTID);
    for number in ALLOWED.into_iter().chain(for_threads) {
        steps.extend([equals(number, 1), allow])
    }
    // prctl() to name a thread, madvise() to give its stack back
    for (number, argument, offset) in
        [(SYS_PRCTL, PR_SET_NAME, 16), (SYS_MADVISE, MADV_DONTNEED, 32)]
    {
        steps.extend([equals(number, 4), load(offset), equals(argument, 1), allow, kill])
    }
    steps.push(kill);
    steps
}

unsafe fn raw(number: c_long, a: c_ulong, b: c_ulong, c: c_ulong) -> c_long {
    let result;
    asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c,
         out("rcx") _, out("r11") _);
    result
}

unsafe fn confine(way: &str, directory: Option<String>) -> bool {
    let steps = filter(way == "raw-single");
    let program = Program { count: steps.len() as u16, steps: steps.as_ptr() };
    if matches!(way, "prctl" | "syscall" | "raw" | "raw-single")
        && prctl(PR_SET_NO_NEW_PRIVS, 1 as c_ulong, 0 as c_ulong, 0 as c_ulong, 0 as c_ulong) != 0
    {
        return false;
    }
    match way {
        "none" => true,
        "root" => {
            let path = CString::new(directory.expect("directory")).unwrap();
            chroot(path.as_ptr()) == 0 && chdir(c"/".as_ptr()) == 0
        }
        "user" => setgid(NOBODY) == 0 && setuid(NOBODY) == 0,
        "prctl" => prctl(PR_SET_SECCOMP, SECCOMP_FILTER, &program) == 0,
        "syscall" => syscall(SYS_SECCOMP, 1 as c_ulong, 0 as c_ulong, &program) == 0,
        _ => raw(SYS_SECCOMP, 1, 0, &program as *const Program as c_ulong) == 0,
    }
}

static POLLS: AtomicU64 = AtomicU64::new(0);

async fn yielding() {
    for _ in 0..2000 {
        POLLS.fetch_add(1, Relaxed);
        tokio::task::yield_now().await
    }
    POLLS.fetch_add(1, Relaxed);
}

fn run(is_single: bool) {
    let mut builder = if is_single {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    let runtime = builder.worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..50).map(|_| tokio::spawn(yielding())).collect();
        for task in tasks {
            task.await.unwrap()
        }
    });
    drop(runtime);
    println!("{}", POLLS.load(Relaxed))
}

fn main() {
    let mut arguments = std::env::args().skip(1).peekable();
    let is_both = arguments.peek().is_some_and(|word| word == "both");
    if arguments.next_if(|word| word == "child" || word == "both").is_some() {
        let mut status = 0;
        let child = unsafe { fork() };
        if child != 0 {
            unsafe { waitpid(child, &mut status, 0) };
            if status != 0 || !is_both {
                std::process::exit(if status & 0x7f != 0 { 99 } else { status >> 8 })
            }
        }
    }
    let way = arguments.next().expect("way");
    if !unsafe { confine(&way, arguments.next()) } {
        std::process::exit(77)
    }
    run(way == "raw-single")
}
