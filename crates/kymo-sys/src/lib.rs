// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The C API of kymo, as its headers declare it: programs use the crate `kymo`.
//!
//! `cinclude/kymo/*.h` say what each function does. `layout.c` asserts the same sizes.
#![allow(non_camel_case_types)]
#![no_std]

// The C sources call it: without this line it would not be linked.
#[cfg(feature = "zstd")]
use zstd_sys as _;

use core::ffi::{c_char, c_int, c_void};
use core::mem::{offset_of, size_of};

pub const KYMO_E_CLOSED: c_int = -4101;
pub const KYMO_E_UNSUPPORTED: c_int = -4104;
pub const KYMO_E_ACTIVE: c_int = -4105;

pub const KYMO_RECORDER_STREAM: u32 = 1 << 2;
pub const KYMO_RECORDER_FATAL_SIGNALS: u32 = 1 << 4;
pub const KYMO_MODE_STREAM: u32 = 1;
pub const KYMO_MODE_FLIGHT: u32 = 2;
pub const KYMO_SAMPLE_OFF: u32 = u32::MAX;
pub const KYMO_SWITCHES_ON: u32 = 1;
pub const KYMO_SWITCHES_OFF: u32 = 2;
pub const KYMO_COMPRESSION_DEFAULT: u32 = 0;
pub const KYMO_COMPRESSION_NONE: u32 = 1;
pub const KYMO_COMPRESSION_ZSTD: u32 = 2;
pub const KYMO_COUNTER_ERRORS: u32 = 1;
pub const KYMO_DUMP_WAIT: u32 = 1;
pub const KYMO_DUMP_STOP: u32 = 2;
pub const KYMO_POLL_READY: u32 = 1;
pub const KYMO_POLL_CANCELLED: u32 = 4;
pub const KYMO_WAKE_BY_VALUE: u32 = 1;

pub const KYMO_GATE_POLL: u32 = 1;
pub const KYMO_GATE_WAKE: u32 = 1 << 1;
pub const KYMO_GATE_PARK: u32 = 1 << 2;
pub const KYMO_GATE_SPAWN: u32 = 1 << 3;
pub const KYMO_GATE_DRIVER: u32 = 1 << 4;
pub const KYMO_GATE_BLOCKING: u32 = 1 << 5;
pub const KYMO_GATE_WAKER_CLONE: u32 = 1 << 6;
pub const KYMO_GATE_MARK: u32 = 1 << 7;
pub const KYMO_GATE_CUSTOM: u32 = 1 << 8;
pub const KYMO_GATE_SPAN: u32 = 1 << 9;
pub const KYMO_GATE_PLACE: u32 = 1 << 10;
pub const KYMO_GATE_OFF_CPU: u32 = 1 << 11;
pub const KYMO_GATE_ALLOC: u32 = 1 << 12;
pub const KYMO_GATE_OFF_CPU_STACK: u32 = 1 << 13;
pub const KYMO_GATE_ALLOC_STACK: u32 = 1 << 14;
pub const KYMO_GATE_CONN: u32 = 1 << 15;
pub const KYMO_GATES_DEFAULT: u32 = KYMO_GATE_POLL
    | KYMO_GATE_WAKE
    | KYMO_GATE_PARK
    | KYMO_GATE_SPAWN
    | KYMO_GATE_DRIVER
    | KYMO_GATE_BLOCKING
    | KYMO_GATE_MARK
    | KYMO_GATE_CUSTOM
    | KYMO_GATE_SPAN
    | KYMO_GATE_PLACE
    | KYMO_GATE_OFF_CPU
    | KYMO_GATE_OFF_CPU_STACK
    | KYMO_GATE_ALLOC_STACK;

/// Opaque: an open recorder.
#[repr(C)]
pub struct kymo_recorder {
    _private: [u8; 0],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kymo_key_value {
    pub key: *const c_char,
    pub value: *const c_char,
}

pub type kymo_write_fn =
    Option<unsafe extern "C" fn(ctx: *mut c_void, bytes: *const u8, count: usize) -> c_int>;
pub type kymo_dump_done_fn =
    Option<unsafe extern "C" fn(ctx: *mut c_void, result: *const kymo_dump_result)>;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kymo_recorder_options {
    pub size: usize,
    pub service: *const c_char,
    pub ring_directory: *const c_char,
    pub trace_directory: *const c_char,
    pub ring_bytes: u64,
    pub flags: u32,
    pub gates: u32,
    pub segment_bytes_max: u64,
    pub rotate_interval_ns: u64,
    pub total_bytes_max: u64,
    pub compression: u32,
    pub compression_level: i32,
    pub metadata: *const kymo_key_value,
    pub metadata_count: usize,
    pub errbuf: *mut c_char,
    pub errbuf_bytes: usize,
    pub trace_file: *const c_char,
    pub write: kymo_write_fn,
    pub write_ctx: *mut c_void,
    pub dump_directory: *const c_char,
    pub age_min_ns: u64,
    pub triggers: *const c_char,
    pub session: u64,
    pub sample_bytes: u64,
    pub sample_hz: u32,
    pub resource_interval_ms: u32,
    pub alloc_bytes: u64,
    pub switches: u32,
}

const _: () = assert!(
    size_of::<kymo_recorder_options>() == 200
        && offset_of!(kymo_recorder_options, errbuf) == 96
        && offset_of!(kymo_recorder_options, age_min_ns) == 144
        && offset_of!(kymo_recorder_options, switches) == 192
);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kymo_recorder_status {
    pub size: usize,
    pub is_armed: u32,
    pub threads: u32,
    pub sub_buffers_claimed: u64,
    pub dropped_count: u64,
    pub directory_bytes: u64,
    pub directory_bytes_max: u64,
    pub segments_sealed: u64,
    pub bytes_written: u64,
    pub last_error: i32,
    pub ring_path: [c_char; 256],
    pub counters_refused: u64,
    pub mode: u32,
    pub dumps_waiting: u32,
    pub dumps_made: u64,
    pub dumps_failed: u64,
    pub dumps_refused: u64,
    pub triggers_fired: u64,
    pub triggers_suppressed: u64,
    pub wakeups: u64,
}

const _: () = assert!(
    size_of::<kymo_recorder_status>() == 392
        && offset_of!(kymo_recorder_status, ring_path) == 68
        && offset_of!(kymo_recorder_status, wakeups) == 384
);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kymo_dump_result {
    pub size: usize,
    pub err: i32,
    pub open_poll_count: u32,
    pub events_written: u64,
    pub records_lost: u64,
    pub oldest_ns: u64,
    pub newest_ns: u64,
    pub age_ns: u64,
    pub ring_bytes: u64,
    pub ring_bytes_needed: u64,
    pub bytes_written: u64,
    pub path: [c_char; 512],
}

const _: () =
    assert!(size_of::<kymo_dump_result>() == 592 && offset_of!(kymo_dump_result, path) == 80);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kymo_dump_options {
    pub size: usize,
    pub reason: *const c_char,
    pub label: *const c_char,
    pub metadata: *const kymo_key_value,
    pub metadata_count: usize,
    pub last_ns: u64,
    pub from_ns: u64,
    pub to_ns: u64,
    pub after_ns: u64,
    pub path: *const c_char,
    pub write: kymo_write_fn,
    pub write_ctx: *mut c_void,
    pub flags: u32,
    pub done: kymo_dump_done_fn,
    pub done_ctx: *mut c_void,
}

const _: () =
    assert!(size_of::<kymo_dump_options>() == 120 && offset_of!(kymo_dump_options, done) == 104);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kymo_custom_field {
    pub name: *const c_char,
    /// enum kymo_custom_type
    pub kind: u32,
    pub unit: *const c_char,
}

pub const KYMO_CUSTOM_WORDS_MAX: usize = 120;
pub const KYMO_CUSTOM_STRING_BYTES_MAX: usize = 512;
pub const KYMO_CUSTOM_I64: u32 = 1;
pub const KYMO_CUSTOM_F64: u32 = 2;
pub const KYMO_CUSTOM_BOOL: u32 = 3;
pub const KYMO_CUSTOM_STRING: u32 = 4;
pub const KYMO_CUSTOM_INTERNED: u32 = 7;
pub const KYMO_CUSTOM_U64: u32 = 9;
pub const KYMO_CUSTOM_LIST: u32 = 14;
pub const KYMO_CUSTOM_MAP: u32 = 15;
pub const KYMO_CUSTOM_OPTIONAL: u32 = 0x80;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct kymo_span {
    pub id: u64,
    pub begin_ticks: u64,
    pub name: u32,
    pub slot: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kymo_event_source {
    pub size: usize,
    pub name: *const c_char,
    pub ctx: *mut c_void,
    pub open: Option<unsafe extern "C" fn(ctx: *mut c_void) -> c_int>,
    pub sample: Option<unsafe extern "C" fn(ctx: *mut c_void, now_ns: u64) -> u64>,
    pub close: Option<unsafe extern "C" fn(ctx: *mut c_void)>,
}

pub const KYMO_SOURCE_NEVER: u64 = u64::MAX;

/// Numbers that are not known: KYMO_RUNTIME_NUMBER_UNKNOWN.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kymo_runtime_metrics {
    pub size: usize,
    pub name: *const c_char,
    pub global_queue_depth: u64,
    pub alive_tasks: u64,
    pub workers: u64,
    pub local_queue_depth: u64,
    pub local_queue_depth_max: u64,
    pub blocking_threads: u64,
    pub blocking_threads_idle: u64,
    pub blocking_queue_depth: u64,
    pub spawned_count: u64,
    pub steal_count: u64,
    pub steal_operation_count: u64,
    pub overflow_count: u64,
    pub budget_yield_count: u64,
    pub io_ready_count: u64,
    pub park_count: u64,
    pub busy_ns: u64,
}

pub const KYMO_RUNTIME_NUMBER_UNKNOWN: u64 = u64::MAX;

const _: () = assert!(
    size_of::<kymo_event_source>() == 48
        && size_of::<kymo_runtime_metrics>() == 144
        && offset_of!(kymo_runtime_metrics, busy_ns) == 136
);

const _: () = assert!(
    size_of::<kymo_span>() == 24
        && size_of::<kymo_key_value>() == 16
        && size_of::<kymo_custom_field>() == 24
);

mod demangle;

extern "C" {
    pub fn kymo_names_enable(is_on: c_int);
    pub fn kymo_error_text(code: c_int) -> *const c_char;

    pub fn kymo_recorder_open(
        out: *mut *mut kymo_recorder,
        options: *const kymo_recorder_options,
    ) -> c_int;
    pub fn kymo_recorder_close(recorder: *mut kymo_recorder) -> c_int;
    pub fn kymo_recorder_reopen() -> c_int;
    pub fn kymo_recorder_mode(mode: u32) -> c_int;
    pub fn kymo_recorder_gates(set: u32, clear: u32);
    pub fn kymo_recorder_status(out: *mut kymo_recorder_status) -> c_int;
    pub fn kymo_recorder_dump(
        options: *const kymo_dump_options,
        result: *mut kymo_dump_result,
    ) -> c_int;
    pub fn kymo_trigger_add(
        rules: *const c_char,
        errbuf: *mut c_char,
        errbuf_bytes: usize,
    ) -> c_int;
    pub fn kymo_metadata_set(key: *const c_char, value: *const c_char) -> c_int;
    pub fn kymo_modules_refresh();
    pub fn kymo_string_intern(text: *const c_char, text_bytes: usize) -> u32;
    pub fn kymo_name_intern(
        text: *const c_char,
        text_bytes: usize,
        code_address: u64,
        table_address: u64,
        copy: u32,
    ) -> u32;
    pub fn kymo_thread_guard() -> c_int;

    pub fn kymo_counter_register(name: *const c_char, flags: u32) -> u32;
    pub fn kymo_counter_add(counter: u32, by: i64);
    pub fn kymo_counter_set(counter: u32, value: i64);
    pub fn kymo_counter_value(counter: u32) -> i64;

    pub fn kymo_span_begin(span: *mut kymo_span, name: u32, parent: u64);
    pub fn kymo_span_end(span: *mut kymo_span);
    pub fn kymo_span_enter(id: u64);
    pub fn kymo_span_leave(id: u64);
    pub fn kymo_span_follows(id: u64, other: u64);

    pub fn kymo_custom_register(
        name: *const c_char,
        fields: *const kymo_custom_field,
        field_count: u32,
    ) -> u32;
    pub fn kymo_custom_write(words: *const u64, count: u32);
    pub fn kymo_runtime_metrics_record(metrics: *const kymo_runtime_metrics);
    pub fn kymo_event_source_add(source: *const kymo_event_source) -> c_int;
    pub fn kymo_event_source_remove(source: c_int) -> c_int;

    pub fn kymo_sys_poll_begin(task: u64, name: u32, queue_depth: u32);
    pub fn kymo_sys_spawn(task: u64, name: u32);
    pub fn kymo_sys_poll_delay(delay_ns: u64);
    pub fn kymo_sys_poll_end(flags: u32);
    pub fn kymo_sys_wake(task: u64, flags: u32);
    pub fn kymo_sys_task_end(task: u64, name: u32);
    pub fn kymo_sys_mark(string: u32);
    pub fn kymo_sys_gates() -> u32;
    pub fn kymo_sys_alloc_is_due(bytes: usize) -> bool;
    pub fn kymo_sys_alloc(address: *const c_void, bytes: usize);
    pub fn kymo_sys_free(address: *const c_void);
    pub fn kymo_sys_bytes(text: *const c_char, out: *mut u64) -> c_int;
    pub fn kymo_sys_ns(text: *const c_char, out: *mut u64) -> c_int;
}

/// Interception of Tokio exists for x86_64 Linux with glibc.
pub const HAS_TOKIO: bool = cfg!(kymo_tokio);

#[cfg(kymo_tokio)]
extern "C" {
    pub fn kymo_tokio_start(text: *mut c_char, text_bytes: usize) -> c_int;
    pub fn kymo_tokio_stop() -> c_int;
    pub fn kymo_tokio_task() -> u64;
    pub fn kymo_tokio_copy() -> c_int;
    pub fn kymo_tokio_queue_depth(depth: u32);
    pub fn kymo_tokio_runtime_name(name: *const c_char) -> c_int;
}

/// # Safety
/// As of the C function, where there is one; elsewhere it reads nothing.
#[cfg(not(kymo_tokio))]
pub unsafe fn kymo_tokio_start(_text: *mut c_char, _text_bytes: usize) -> c_int {
    KYMO_E_UNSUPPORTED
}

/// # Safety
/// It reads nothing.
#[cfg(not(kymo_tokio))]
pub unsafe fn kymo_tokio_stop() -> c_int {
    KYMO_E_CLOSED
}

/// # Safety
/// It reads nothing.
#[cfg(not(kymo_tokio))]
pub unsafe fn kymo_tokio_task() -> u64 {
    0
}

/// # Safety
/// It reads nothing.
#[cfg(not(kymo_tokio))]
pub unsafe fn kymo_tokio_runtime_name(_name: *const c_char) -> c_int {
    KYMO_E_CLOSED
}

/// # Safety
/// It reads nothing.
#[cfg(not(kymo_tokio))]
pub unsafe fn kymo_tokio_copy() -> c_int {
    KYMO_E_CLOSED
}

/// # Safety
/// It does nothing.
#[cfg(not(kymo_tokio))]
pub unsafe fn kymo_tokio_queue_depth(_depth: u32) {}
