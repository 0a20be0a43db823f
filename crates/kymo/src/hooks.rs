// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Callbacks of Tokio's builder (`tokio_unstable`): what the tables of a program do not say, and
//! tasks where those may not be used. All that touches Tokio's unstable API but its numbers.
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::Location;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kymo_sys as sys;
use tokio::runtime::{Builder, Handle, RuntimeFlavor, RuntimeMetrics, TaskMeta};
use tokio::task::Id;

use crate::names::Cached;
use crate::raw;

/// What an older Tokio lacks. A method that a type has itself is called in place of a trait's.
#[allow(dead_code)]
trait Older {
    fn on_before_task_poll<F>(&mut self, _: F) -> &mut Self {
        self
    }

    fn on_after_task_poll<F>(&mut self, _: F) -> &mut Self {
        self
    }
}

impl Older for Builder {}

#[allow(dead_code)]
trait OlderMeta {
    fn spawned_at(&self) -> Option<&'static Location<'static>> {
        None
    }

    fn schedule_latency(&self) -> Option<Duration> {
        None
    }
}

impl OlderMeta for TaskMeta<'_> {}

mod older {
    #[allow(dead_code)]
    pub(super) fn worker_index() -> Option<usize> {
        None
    }
}

/// The inner scope is asked first.
fn this_worker() -> Option<usize> {
    #[allow(unused_imports)]
    use older::*;
    {
        #[allow(unused_imports)]
        use tokio::runtime::*;

        worker_index()
    }
}

/// Tokio's own number of a task: what it hashes, which a test compares with what it prints.
#[derive(Default)]
struct Number(u64);

impl Hasher for Number {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

pub(crate) fn number(id: Id) -> u64 {
    let mut out = Number::default();

    id.hash(&mut out);
    out.finish()
}

// ---- places ----

struct Place {
    location: AtomicPtr<Location<'static>>,
    name: Cached,
}

/// A place that found none of these is told to the recorder again at each spawn.
const PLACES: usize = 1024;
const TRIES: usize = 8;

static KNOWN: [Place; PLACES] =
    [const { Place { location: AtomicPtr::new(std::ptr::null_mut()), name: Cached::new() } };
        PLACES];

fn place_of(location: &'static Location<'static>) -> u32 {
    let told = || raw::intern_place(&location.to_string());
    let wanted = std::ptr::from_ref(location).cast_mut();
    let hash = (wanted as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;

    for place in (0..TRIES).map(|tried| &KNOWN[(hash as usize + tried) % PLACES]) {
        let mut known = place.location.load(Ordering::Relaxed);

        if known.is_null() {
            known = match place.location.compare_exchange(
                known,
                wanted,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => wanted,
                Err(other) => other,
            };
        }
        if std::ptr::eq(known, wanted) {
            return place.name.get(told);
        }
    }
    told()
}

trait MaybePlace {
    fn maybe(self) -> Option<&'static Location<'static>>;
}

impl MaybePlace for &'static Location<'static> {
    fn maybe(self) -> Option<&'static Location<'static>> {
        Some(self)
    }
}

impl MaybePlace for Option<&'static Location<'static>> {
    fn maybe(self) -> Option<&'static Location<'static>> {
        self
    }
}

// ---- tasks that live ----

const SHARDS: usize = 16;

/// Where nothing is intercepted. Closures on the blocking pool, a worker's own among them, end
/// through the same callback as tasks, and are spawned through none.
static LIVING: [Mutex<BTreeSet<u64>>; SHARDS] = [const { Mutex::new(BTreeSet::new()) }; SHARDS];

fn living(task: u64) -> MutexGuard<'static, BTreeSet<u64>> {
    LIVING[task as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
}

fn remember(task: u64) {
    living(task).insert(task);
}

/// Whether it was spawned.
fn forget(task: u64) -> bool {
    living(task).remove(&task)
}

// ---- what a thread is in the middle of ----

/// Of the runtime whose callbacks have this number: a worker's thread belongs to one for as long as
/// it lives, and ends with it, so what is kept here keeps no driver alive.
struct Queue {
    of: u64,
    metrics: Option<RuntimeMetrics>,
}

/// Polls that the callbacks began; deeper ones are not known by their ids.
#[derive(Clone, Copy, Default)]
struct Polled {
    depth: usize,
    tasks: [u64; 4],
    /// Ended in the innermost one; 0: none.
    ended: u64,
}

thread_local! {
    static QUEUE: RefCell<Queue> = const { RefCell::new(Queue { of: 0, metrics: None }) };
    static POLLED: Cell<Polled> =
        const { Cell::new(Polled { depth: 0, tasks: [0; 4], ended: 0 }) };
}

impl Polled {
    fn task(&self) -> u64 {
        match self.depth {
            0 => 0,
            depth => self.tasks.get(depth - 1).copied().unwrap_or(0),
        }
    }
}

fn own_metrics() -> Option<RuntimeMetrics> {
    let handle = Handle::try_current().ok()?;

    (handle.runtime_flavor() == RuntimeFlavor::MultiThread).then(|| handle.metrics())
}

/// `u32::MAX`: not known.
fn queue_depth(of: u64) -> u32 {
    let depth = QUEUE.try_with(|queue| {
        let mut queue = queue.try_borrow_mut().ok()?;

        if queue.of != of {
            *queue = Queue { of, metrics: own_metrics() };
        }
        let metrics = queue.metrics.as_ref()?;
        let worker = this_worker()?;

        (worker < metrics.num_workers()).then(|| metrics.worker_local_queue_depth(worker) as u32)
    });

    depth.ok().flatten().unwrap_or(u32::MAX)
}

/// The poll of a task that is open on this thread, begun by a callback; 0: there is none.
pub(crate) fn polled_task() -> u64 {
    let task = POLLED.try_with(Cell::get).map_or(0, |polled| polled.task());

    // Tasks of a local set have no callbacks: the poll is another task's.
    if task != 0 && tokio::task::try_id().is_some_and(|id| number(id) == task) {
        task
    } else {
        0
    }
}

fn began(meta: &TaskMeta<'_>, of: u64) {
    let is_wanted = raw::gates() & sys::KYMO_GATE_POLL != 0;
    let depth = if is_wanted { queue_depth(of) } else { u32::MAX };

    if !raw::is_wrapping() {
        if depth != u32::MAX {
            raw::queue_depth(depth);
        }
        return;
    }
    let task = number(meta.id());
    let noted = POLLED.try_with(|polled| {
        let mut now = polled.get();

        if let Some(place) = now.tasks.get_mut(now.depth) {
            *place = task;
        }
        now.depth += 1;
        polled.set(now);
    });

    if noted.is_ok() {
        raw::begin_poll(task, 0, depth);
        if let Some(delay) = meta.schedule_latency() {
            raw::poll_delay(delay.as_nanos() as u64);
        }
    }
}

fn over() {
    let ended = POLLED.try_with(|polled| {
        let mut now = polled.get();

        if now.depth == 0 {
            return None; // it is intercepted, or began before the recorder
        }
        let is_over = now.ended != 0 && now.ended == now.task();

        now.depth -= 1;
        now.ended = 0;
        polled.set(now);
        Some(is_over)
    });

    if let Ok(Some(is_over)) = ended {
        raw::end_poll(if is_over { sys::KYMO_POLL_READY } else { 0 });
    }
}

fn terminated(meta: &TaskMeta<'_>) {
    let task = number(meta.id());
    let is_outside = POLLED.try_with(|polled| {
        let mut now = polled.get();

        if now.depth != 0 && now.task() == task {
            now.ended = task;
            polled.set(now);
            return false;
        }
        true
    });

    if forget(task) && is_outside == Ok(true) {
        raw::end_task(task, 0);
    }
}

fn spawned(meta: &TaskMeta<'_>) {
    if raw::is_wrapping() {
        remember(number(meta.id()));
    }
    if raw::gates() & sys::KYMO_GATE_SPAWN != 0 {
        let place = meta.spawned_at().maybe().map_or(0, place_of);

        raw::spawn(number(meta.id()), place);
    }
}

// ---- what the program says ----

type Callback = Arc<dyn Fn(&TaskMeta<'_>) + Send + Sync>;

fn call(callback: &Option<Callback>, meta: &TaskMeta<'_>) {
    if let Some(callback) = callback {
        callback(meta);
    }
}

/// Callbacks that Tokio makes for each task of a runtime, with `--cfg tokio_unstable`. They say
/// where a task was spawned, and how many tasks lie in a worker's own queue when a poll begins; and
/// where Tokio's tables may not be used they record polls and ends of every task in their place.
///
/// A builder of Tokio has one callback of each kind, so these take the place of what it has. What
/// the program wants to be called is given to them.
///
/// ```
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let recorder = kymo::Recorder::start(kymo::Config::builder().build()?)?;
/// let hooks = kymo::TaskHooks::new().on_task_spawn(|meta| println!("{} is spawned", meta.id()));
/// let runtime = recorder.attach(
///     tokio::runtime::Builder::new_multi_thread().worker_threads(1),
///     kymo::RuntimeOptions::new().task_hooks(hooks),
/// )?;
/// # drop(runtime);
/// # Ok(())
/// # }
/// # example().expect("a runtime");
/// ```
#[derive(Clone, Default)]
pub struct TaskHooks {
    spawn: Option<Callback>,
    before: Option<Callback>,
    after: Option<Callback>,
    terminate: Option<Callback>,
}

impl fmt::Debug for TaskHooks {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("TaskHooks").finish_non_exhaustive()
    }
}

impl TaskHooks {
    /// The recorder's own alone.
    pub fn new() -> Self {
        TaskHooks::default()
    }

    /// As the method of the same name of Tokio's builder.
    pub fn on_task_spawn<F>(mut self, call: F) -> Self
    where
        F: Fn(&TaskMeta<'_>) + Send + Sync + 'static,
    {
        self.spawn = Some(Arc::new(call));
        self
    }

    /// The same, outside of what is recorded as the poll. Tokio has it from 1.44 on; an older one
    /// does not call it.
    pub fn on_before_task_poll<F>(mut self, call: F) -> Self
    where
        F: Fn(&TaskMeta<'_>) + Send + Sync + 'static,
    {
        self.before = Some(Arc::new(call));
        self
    }

    /// The same.
    pub fn on_after_task_poll<F>(mut self, call: F) -> Self
    where
        F: Fn(&TaskMeta<'_>) + Send + Sync + 'static,
    {
        self.after = Some(Arc::new(call));
        self
    }

    /// The same, in any version.
    pub fn on_task_terminate<F>(mut self, call: F) -> Self
    where
        F: Fn(&TaskMeta<'_>) + Send + Sync + 'static,
    {
        self.terminate = Some(Arc::new(call));
        self
    }

    /// Into a builder: for runtimes that [`Recorder::attach`](crate::Recorder::attach) does not
    /// build. They may run before a recorder is open, and after it.
    pub fn install(&self, builder: &mut Builder) {
        static RUNTIMES: AtomicU64 = AtomicU64::new(1);

        let of = RUNTIMES.fetch_add(1, Ordering::Relaxed);
        let TaskHooks { spawn, before, after, terminate } = self.clone();

        builder.on_task_spawn(move |meta| {
            spawned(meta);
            call(&spawn, meta);
        });
        builder.on_before_task_poll(move |meta: &TaskMeta<'_>| {
            call(&before, meta);
            began(meta, of);
        });
        builder.on_after_task_poll(move |meta: &TaskMeta<'_>| {
            over();
            call(&after, meta);
        });
        builder.on_task_terminate(move |meta| {
            if raw::is_wrapping() {
                terminated(meta);
            }
            call(&terminate, meta);
        });
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_task_has_the_number_that_tokio_prints() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let id = runtime.block_on(async { tokio::spawn(async { tokio::task::id() }).await });
        let id = id.expect("a task panicked");

        assert_eq!(super::number(id).to_string(), id.to_string());
    }
}
