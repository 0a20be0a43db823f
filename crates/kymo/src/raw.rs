// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The C functions as safe ones: all the unsafe code of this crate.
use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::mem::size_of;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kymo_sys as sys;

use crate::error::Error;

const SENTENCE_BYTES: usize = 512;

/// What `kymo_recorder_open()` is asked for. Zero and None: the documented default.
#[derive(Default)]
pub(crate) struct Options {
    pub service: Option<CString>,
    pub ring_directory: Option<CString>,
    pub trace_directory: Option<CString>,
    pub trace_file: Option<CString>,
    pub dump_directory: Option<CString>,
    pub triggers: Option<CString>,
    pub metadata: Vec<(CString, CString)>,
    pub ring_bytes: u64,
    pub sample_bytes: u64,
    pub segment_bytes_max: u64,
    pub rotate_interval_ns: u64,
    pub total_bytes_max: u64,
    pub age_min_ns: u64,
    pub alloc_bytes: u64,
    pub compression: u32,
    pub compression_level: i32,
    pub flags: u32,
    pub gates: u32,
    pub sample_hz: u32,
    pub resource_interval_ms: u32,
    pub switches: u32,
    pub names_tasks: bool,
}

/// An open recorder; closed at most once, by the value that owns it.
pub(crate) struct Open(*mut sys::kymo_recorder);

// SAFETY: the C side takes the pointer on any thread; it is used once, by close().
unsafe impl Send for Open {}

fn text(buffer: &[c_char]) -> String {
    let bytes: Vec<u8> =
        buffer.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();

    String::from_utf8_lossy(&bytes).trim_end().to_owned()
}

fn or_null(value: &Option<CString>) -> *const c_char {
    value.as_ref().map_or(ptr::null(), |value| value.as_ptr())
}

pub(crate) fn error_text(code: c_int) -> String {
    // SAFETY: it returns a static string for any number.
    unsafe { CStr::from_ptr(sys::kymo_error_text(code)) }.to_string_lossy().into_owned()
}

fn check(code: c_int) -> Result<(), Error> {
    if code < 0 {
        return Err(Error::new(code, error_text(code)));
    }
    Ok(())
}

pub(crate) fn open(options: &Options) -> Result<Open, Error> {
    let metadata: Vec<sys::kymo_key_value> = options
        .metadata
        .iter()
        .map(|(key, value)| sys::kymo_key_value { key: key.as_ptr(), value: value.as_ptr() })
        .collect();
    let mut sentence = [0 as c_char; SENTENCE_BYTES];
    let mut out = ptr::null_mut();
    let asked = sys::kymo_recorder_options {
        size: size_of::<sys::kymo_recorder_options>(),
        service: or_null(&options.service),
        ring_directory: or_null(&options.ring_directory),
        trace_directory: or_null(&options.trace_directory),
        ring_bytes: options.ring_bytes,
        flags: options.flags,
        gates: options.gates,
        segment_bytes_max: options.segment_bytes_max,
        rotate_interval_ns: options.rotate_interval_ns,
        total_bytes_max: options.total_bytes_max,
        compression: options.compression,
        compression_level: options.compression_level,
        metadata: metadata.as_ptr(),
        metadata_count: metadata.len(),
        errbuf: sentence.as_mut_ptr(),
        errbuf_bytes: sentence.len(),
        trace_file: or_null(&options.trace_file),
        write: None,
        write_ctx: ptr::null_mut(),
        dump_directory: or_null(&options.dump_directory),
        age_min_ns: options.age_min_ns,
        triggers: or_null(&options.triggers),
        session: 0,
        sample_bytes: options.sample_bytes,
        sample_hz: options.sample_hz,
        resource_interval_ms: options.resource_interval_ms,
        alloc_bytes: options.alloc_bytes,
        switches: options.switches,
    };
    // SAFETY: no recorder of ours is open, or the next call refuses.
    unsafe { sys::kymo_names_enable(c_int::from(options.names_tasks)) };
    // SAFETY: all pointers live during the call, which copies what it keeps.
    let code = unsafe { sys::kymo_recorder_open(&mut out, &asked) };

    if code < 0 {
        let said = text(&sentence);

        return Err(Error::new(code, if said.is_empty() { error_text(code) } else { said }));
    }
    Ok(Open(out))
}

impl Open {
    /// Drains, writes the dumps that wait, seals.
    pub(crate) fn close(self) -> Result<(), Error> {
        // SAFETY: it came from kymo_recorder_open() and is given up here.
        check(unsafe { sys::kymo_recorder_close(self.0) })
    }
}

pub(crate) fn status() -> Option<sys::kymo_recorder_status> {
    // SAFETY: zeros are a value of this struct of numbers.
    let mut out: sys::kymo_recorder_status = unsafe { std::mem::zeroed() };

    out.size = size_of::<sys::kymo_recorder_status>();
    // SAFETY: out has the size that it says.
    (unsafe { sys::kymo_recorder_status(&mut out) } == 0).then_some(out)
}

pub(crate) fn ring_path(status: &sys::kymo_recorder_status) -> String {
    text(&status.ring_path)
}

pub(crate) fn set_mode(mode: u32) -> Result<(), Error> {
    // SAFETY: any number is fine.
    check(unsafe { sys::kymo_recorder_mode(mode) })
}

pub(crate) fn set_gates(set: u32, clear: u32) {
    // SAFETY: any numbers are fine.
    unsafe { sys::kymo_recorder_gates(set, clear) }
}

pub(crate) fn gates() -> u32 {
    // SAFETY: it reads one word.
    unsafe { sys::kymo_sys_gates() }
}

pub(crate) fn set_metadata(key: &CStr, value: &CStr) -> Result<(), Error> {
    // SAFETY: both are strings.
    check(unsafe { sys::kymo_metadata_set(key.as_ptr(), value.as_ptr()) })
}

pub(crate) fn add_triggers(rules: &CStr) -> Result<(), Error> {
    let mut sentence = [0 as c_char; SENTENCE_BYTES];
    // SAFETY: rules is a string, sentence has the size that is given.
    let code =
        unsafe { sys::kymo_trigger_add(rules.as_ptr(), sentence.as_mut_ptr(), sentence.len()) };

    if code < 0 {
        let said = text(&sentence);

        return Err(Error::new(code, if said.is_empty() { error_text(code) } else { said }));
    }
    Ok(())
}

/// In a forked child.
pub(crate) fn reopen() -> Result<(), Error> {
    // SAFETY: it takes nothing.
    check(unsafe { sys::kymo_recorder_reopen() })
}

// ---- Tokio ----

/// A recorder is open, and Tokio's own tables are not recorded.
static IS_WRAPPING: AtomicBool = AtomicBool::new(false);

pub(crate) fn is_wrapping() -> bool {
    IS_WRAPPING.load(Ordering::Relaxed)
}

pub(crate) fn set_wrapping(is_wrapping: bool) {
    IS_WRAPPING.store(is_wrapping, Ordering::Relaxed);
}

pub(crate) fn start_tokio() -> Result<String, Error> {
    let mut sentence = [0 as c_char; SENTENCE_BYTES];
    // SAFETY: sentence has the size that is given.
    let code = unsafe { sys::kymo_tokio_start(sentence.as_mut_ptr(), sentence.len()) };

    if code < 0 {
        return Err(Error::new(code, text(&sentence)));
    }
    Ok(text(&sentence))
}

pub(crate) fn stop_tokio() -> Result<(), Error> {
    // SAFETY: it takes nothing.
    check(unsafe { sys::kymo_tokio_stop() })
}

pub(crate) fn tokio_task() -> u64 {
    // SAFETY: it takes nothing and reads a task that is being polled by this thread.
    unsafe { sys::kymo_tokio_task() }
}

/// Of the task that this thread polls.
pub(crate) fn name_runtime(name: &CStr) -> Result<(), Error> {
    // SAFETY: name is a string, which is copied.
    check(unsafe { sys::kymo_tokio_runtime_name(name.as_ptr()) })
}

// ---- sources ----

/// Returns when it wants to be called again, in ns.
type Sample = Box<dyn FnMut() -> u64 + Send>;

unsafe extern "C" fn on_sample(ctx: *mut c_void, _now_ns: u64) -> u64 {
    // SAFETY: ctx is the box of add_source(); one call runs at a time, and on_close() is the last.
    let sample = unsafe { &mut *ctx.cast::<Sample>() };

    catch_unwind(AssertUnwindSafe(sample)).unwrap_or(sys::KYMO_SOURCE_NEVER)
}

unsafe extern "C" fn on_close(ctx: *mut c_void) {
    // SAFETY: ctx is the box of add_source(), and this is the last call.
    let sample = unsafe { Box::from_raw(ctx.cast::<Sample>()) };

    let _ = catch_unwind(AssertUnwindSafe(|| drop(sample)));
}

/// Called on the recorder's thread, until it is removed or the recorder closes.
pub(crate) fn add_source(name: &CStr, sample: Sample) -> Result<c_int, Error> {
    let ctx = Box::into_raw(Box::new(sample));
    let source = sys::kymo_event_source {
        size: size_of::<sys::kymo_event_source>(),
        name: name.as_ptr(),
        ctx: ctx.cast(),
        open: None,
        sample: Some(on_sample),
        close: Some(on_close),
    };
    // SAFETY: name is copied; ctx is on_close()'s from here on, unless it is refused.
    let number = unsafe { sys::kymo_event_source_add(&source) };

    if number < 0 {
        // SAFETY: refused, so on_close() is not called.
        drop(unsafe { Box::from_raw(ctx) });
    }
    check(number).map(|()| number)
}

pub(crate) fn remove_source(number: c_int) {
    // SAFETY: any number is fine; that it has ended already is no error.
    let _ = unsafe { sys::kymo_event_source_remove(number) };
}

#[cfg(feature = "metrics")]
pub(crate) fn record_metrics(name: &CStr, mut metrics: sys::kymo_runtime_metrics) {
    metrics.size = size_of::<sys::kymo_runtime_metrics>();
    metrics.name = name.as_ptr();
    // SAFETY: name is a string.
    unsafe { sys::kymo_runtime_metrics_record(&metrics) }
}

// ---- dumps ----

#[derive(Default)]
pub(crate) struct DumpOptions {
    pub reason: Option<CString>,
    pub label: Option<CString>,
    pub path: Option<CString>,
    pub last_ns: u64,
    pub after_ns: u64,
    pub is_stop: bool,
}

/// How a dump went.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dumped {
    /// The trace's file; empty where the bytes were returned.
    pub path: PathBuf,
    /// Events in the trace.
    pub events: u64,
    /// Records that the ring had lost by then, all causes.
    pub lost: u64,
    /// How far back the trace reaches.
    pub age: Duration,
    /// Bytes written, compressed.
    pub bytes: u64,
}

fn read_result(result: &sys::kymo_dump_result) -> Result<Dumped, Error> {
    check(result.err)?;
    Ok(Dumped {
        path: PathBuf::from(text(&result.path)),
        events: result.events_written,
        lost: result.records_lost,
        age: Duration::from_nanos(result.age_ns),
        bytes: result.bytes_written,
    })
}

fn empty_result() -> sys::kymo_dump_result {
    // SAFETY: zeros are a value of this struct of numbers.
    let mut result: sys::kymo_dump_result = unsafe { std::mem::zeroed() };

    result.size = size_of::<sys::kymo_dump_result>();
    result
}

fn dump_options(options: &DumpOptions) -> sys::kymo_dump_options {
    // SAFETY: zeros and null pointers are the documented defaults.
    let mut asked: sys::kymo_dump_options = unsafe { std::mem::zeroed() };

    asked.size = size_of::<sys::kymo_dump_options>();
    asked.reason = or_null(&options.reason);
    asked.label = or_null(&options.label);
    asked.path = or_null(&options.path);
    asked.last_ns = options.last_ns;
    asked.after_ns = options.after_ns;
    asked.flags = if options.is_stop { sys::KYMO_DUMP_STOP } else { 0 };
    asked
}

unsafe extern "C" fn append(ctx: *mut c_void, bytes: *const u8, count: usize) -> c_int {
    // SAFETY: ctx is the Vec of dump(), which waits; bytes are count bytes.
    let (out, more) =
        unsafe { (&mut *ctx.cast::<Vec<u8>>(), std::slice::from_raw_parts(bytes, count)) };

    if out.try_reserve(count).is_err() {
        return -12; /* ENOMEM */
    }
    out.extend_from_slice(more);
    0
}

/// Waits for the dump. out: takes the trace's bytes in place of a file.
pub(crate) fn dump(options: &DumpOptions, out: Option<&mut Vec<u8>>) -> Result<Dumped, Error> {
    let mut asked = dump_options(options);
    let mut result = empty_result();

    asked.flags |= sys::KYMO_DUMP_WAIT;
    if let Some(out) = out {
        asked.write = Some(append);
        asked.write_ctx = ptr::from_mut(out).cast();
    }
    // SAFETY: all pointers live until it returns, and it returns when the dump is done.
    let code = unsafe { sys::kymo_recorder_dump(&asked, &mut result) };

    if code < 0 && result.err == 0 {
        return Err(Error::new(code, error_text(code)));
    }
    read_result(&result)
}

type Done = Box<dyn FnOnce(Result<Dumped, Error>) + Send>;

unsafe extern "C" fn on_done(ctx: *mut c_void, result: *const sys::kymo_dump_result) {
    // SAFETY: ctx is the box of dump_then(), and this is called once; result is valid meanwhile.
    let (callbacks, result) = unsafe { (Box::from_raw(ctx.cast::<Callbacks>()), &*result) };

    let _ = catch_unwind(AssertUnwindSafe(|| (callbacks.done)(read_result(result))));
}

/// Takes the bytes of a trace, in order, on the recorder's thread.
pub(crate) type Take = Box<dyn FnMut(&[u8]) + Send>;

/// What a dump that is not waited for runs on the recorder's thread.
struct Callbacks {
    take: Option<Take>,
    done: Done,
}

unsafe extern "C" fn on_bytes(ctx: *mut c_void, bytes: *const u8, count: usize) -> c_int {
    // SAFETY: ctx is the box of dump_then(), and on_done() is the last call; bytes are count bytes.
    let (callbacks, bytes) =
        unsafe { (&mut *ctx.cast::<Callbacks>(), std::slice::from_raw_parts(bytes, count)) };
    let taken = catch_unwind(AssertUnwindSafe(|| {
        if let Some(take) = &mut callbacks.take {
            take(bytes);
        }
    }));

    if taken.is_ok() {
        0
    } else {
        -12 /* ENOMEM */
    }
}

/// Returns at once; done runs on the recorder's thread. take: gets the trace in place of a file.
pub(crate) fn dump_then(
    options: &DumpOptions,
    take: Option<Take>,
    done: Done,
) -> Result<(), Error> {
    let mut asked = dump_options(options);
    let is_taken = take.is_some();
    let ctx = Box::into_raw(Box::new(Callbacks { take, done }));

    if is_taken {
        asked.write = Some(on_bytes);
        asked.write_ctx = ctx.cast();
    }

    asked.done = Some(on_done);
    asked.done_ctx = ctx.cast();
    // SAFETY: what options points to is copied; ctx is on_done()'s once it returns 0.
    let code = unsafe { sys::kymo_recorder_dump(&asked, ptr::null_mut()) };

    if code < 0 {
        // SAFETY: refused, so on_done() is not called.
        drop(unsafe { Box::from_raw(ctx) });
    }
    check(code)
}

// ---- events ----

pub(crate) fn intern_string(string: &str) -> u32 {
    // SAFETY: so many bytes.
    unsafe { sys::kymo_string_intern(string.as_ptr().cast(), string.len()) }
}

pub(crate) fn intern_name(name: &str) -> u32 {
    // SAFETY: so many bytes.
    unsafe { sys::kymo_name_intern(name.as_ptr().cast(), name.len(), 0, 0, 0) }
}

pub(crate) fn mark(string: u32) {
    // SAFETY: any number is fine.
    unsafe { sys::kymo_sys_mark(string) }
}

pub(crate) fn register_counter(name: &CStr, flags: u32) -> u32 {
    // SAFETY: name is a string.
    unsafe { sys::kymo_counter_register(name.as_ptr(), flags) }
}

pub(crate) fn add_counter(counter: u32, by: i64) {
    // SAFETY: any numbers are fine.
    unsafe { sys::kymo_counter_add(counter, by) }
}

pub(crate) fn set_counter(counter: u32, value: i64) {
    // SAFETY: any numbers are fine.
    unsafe { sys::kymo_counter_set(counter, value) }
}

pub(crate) fn counter_value(counter: u32) -> i64 {
    // SAFETY: any number is fine.
    unsafe { sys::kymo_counter_value(counter) }
}

pub(crate) fn register_event(name: &str, fields: &[crate::event::Field]) -> u32 {
    let texts: Vec<Option<(CString, CString)>> = fields
        .iter()
        .map(|field| {
            Some((CString::new(field.name.as_str()).ok()?, CString::new(field.unit).ok()?))
        })
        .collect();
    let (Ok(name), Some(texts)) =
        (CString::new(name), texts.into_iter().collect::<Option<Vec<_>>>())
    else {
        return 0;
    };
    let fields: Vec<sys::kymo_custom_field> = fields
        .iter()
        .zip(&texts)
        .map(|(field, (name, unit))| sys::kymo_custom_field {
            name: name.as_ptr(),
            kind: field.kind,
            unit: unit.as_ptr(),
        })
        .collect();

    // SAFETY: all texts live during the call, which copies them.
    unsafe { sys::kymo_custom_register(name.as_ptr(), fields.as_ptr(), fields.len() as u32) }
}

pub(crate) fn write_event(words: &[u64]) {
    // SAFETY: so many words.
    unsafe { sys::kymo_custom_write(words.as_ptr(), words.len() as u32) }
}

pub(crate) type RawSpan = sys::kymo_span;

pub(crate) fn begin_span(name: u32, parent: u64) -> RawSpan {
    let mut span = RawSpan::default();

    // SAFETY: span is filled.
    unsafe { sys::kymo_span_begin(&mut span, name, parent) };
    span
}

pub(crate) fn end_span(span: &mut RawSpan) {
    // SAFETY: begin_span() filled it; a second end does nothing.
    unsafe { sys::kymo_span_end(span) }
}

// ---- hooks of Tokio's builder ----

/// Of the Tokio that this crate is built with, among those of the program.
#[cfg(all(feature = "hooks", tokio_unstable))]
static COPY: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

/// To be called inside a task.
pub(crate) fn note_copy() {
    #[cfg(all(feature = "hooks", tokio_unstable))]
    // SAFETY: it takes nothing and reads what is polled by this thread.
    COPY.store(u32::try_from(unsafe { sys::kymo_tokio_copy() }).unwrap_or(0), Ordering::Relaxed);
}

/// For names of tasks that are seen by their ids.
#[cfg(all(feature = "hooks", tokio_unstable))]
pub(crate) fn intern_place(place: &str) -> u32 {
    // SAFETY: so many bytes.
    unsafe {
        let copy = if is_wrapping() { 0 } else { COPY.load(Ordering::Relaxed) };

        sys::kymo_name_intern(place.as_ptr().cast(), place.len(), 0, 0, copy)
    }
}

#[cfg(all(feature = "hooks", tokio_unstable))]
pub(crate) fn spawn(task: u64, place: u32) {
    // SAFETY: any numbers are fine.
    unsafe { sys::kymo_sys_spawn(task, place) }
}

#[cfg(all(feature = "hooks", tokio_unstable))]
pub(crate) fn poll_delay(ns: u64) {
    // SAFETY: any number is fine.
    unsafe { sys::kymo_sys_poll_delay(ns) }
}

/// Of the next poll that begins on this thread, where tasks are intercepted.
#[cfg(all(feature = "hooks", tokio_unstable))]
pub(crate) fn queue_depth(depth: u32) {
    // SAFETY: any number is fine.
    unsafe { sys::kymo_tokio_queue_depth(depth) }
}

#[cfg(feature = "tracing")]
#[inline]
pub(crate) fn enter_span(id: u64) {
    // SAFETY: any number is fine.
    unsafe { sys::kymo_span_enter(id) }
}

#[cfg(feature = "tracing")]
#[inline]
pub(crate) fn leave_span(id: u64) {
    // SAFETY: any number is fine.
    unsafe { sys::kymo_span_leave(id) }
}

#[cfg(feature = "tracing")]
pub(crate) fn follow_span(id: u64, other: u64) {
    // SAFETY: any numbers are fine.
    unsafe { sys::kymo_span_follows(id, other) }
}

/// queue_depth: `u32::MAX`: not known.
pub(crate) fn begin_poll(task: u64, name: u32, queue_depth: u32) {
    // SAFETY: any numbers are fine.
    unsafe { sys::kymo_sys_poll_begin(task, name, queue_depth) }
}

pub(crate) fn end_poll(flags: u32) {
    // SAFETY: with no poll open it does nothing.
    unsafe { sys::kymo_sys_poll_end(flags) }
}

pub(crate) fn wake(task: u64, flags: u32) {
    // SAFETY: any numbers are fine.
    unsafe { sys::kymo_sys_wake(task, flags) }
}

pub(crate) fn end_task(task: u64, name: u32) {
    // SAFETY: any numbers are fine.
    unsafe { sys::kymo_sys_task_end(task, name) }
}

// ---- allocations ----

/// A global allocator that samples what it allocates: one of [`alloc_bytes`] bytes, with its stack.
/// An allocation that is not sampled costs a subtraction and a branch.
///
/// ```
/// #[global_allocator]
/// static ALLOC: kymo::Alloc = kymo::Alloc::system();
/// ```
///
/// [`alloc_bytes`]: crate::ConfigBuilder::alloc_bytes
pub struct Alloc<A = System>(A);

impl Alloc {
    /// Over the system's allocator.
    pub const fn system() -> Self {
        Alloc(System)
    }
}

impl<A> Alloc<A> {
    /// Over another allocator.
    pub const fn over(allocator: A) -> Self {
        Alloc(allocator)
    }
}

fn allocated(address: *mut u8, bytes: usize) {
    // SAFETY: it counts bytes in a variable of the thread.
    if unsafe { sys::kymo_sys_alloc_is_due(bytes) } {
        // SAFETY: the address is a number to it.
        unsafe { sys::kymo_sys_alloc(address.cast_const().cast(), bytes) }
    }
}

fn freed(address: *mut u8) {
    // SAFETY: the address is a number to it.
    unsafe { sys::kymo_sys_free(address.cast_const().cast()) }
}

// SAFETY: every call is passed on as it came.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Alloc<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        let address = unsafe { self.0.alloc(layout) };

        allocated(address, layout.size());
        address
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        let address = unsafe { self.0.alloc_zeroed(layout) };

        allocated(address, layout.size());
        address
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        freed(address);
        // SAFETY: as the caller promises.
        unsafe { self.0.dealloc(address, layout) }
    }
    // realloc: the default, by alloc and dealloc of this one.
}

// ---- quantities, as all of kymo reads them ----

/// 65536, 64K, 32M, 2G.
pub(crate) fn read_bytes(text: &CStr) -> Option<u64> {
    let mut out = 0;

    // SAFETY: text is a string.
    (unsafe { sys::kymo_sys_bytes(text.as_ptr(), &mut out) } == 0).then_some(out)
}

/// 20ms, 1.5s, 2m, 1h.
pub(crate) fn read_ns(text: &CStr) -> Option<u64> {
    let mut out = 0;

    // SAFETY: text is a string.
    (unsafe { sys::kymo_sys_ns(text.as_ptr(), &mut out) } == 0).then_some(out)
}

// ---- the process ----

extern "C" {
    fn atexit(call: extern "C" fn()) -> c_int;
}

/// Runs when main returns and in exit(), not where the process is killed or aborts.
pub(crate) fn at_exit(call: extern "C" fn()) {
    // SAFETY: call stays, as this crate is part of the program.
    let _ = unsafe { atexit(call) };
}
