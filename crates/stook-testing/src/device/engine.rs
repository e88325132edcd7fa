//! [`DeviceEngines`]: real reads and writes that take as long as on a simulated device.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use stook::Result;
use stook::engine::{Backend, Completion, Engine, EngineFactory, OperationKind, Request};

use super::Device;
use super::service::{Chance, Service};

/// The simulated time that passes between engines, so that the next one finds the device idle, with
/// an empty cache.
const IDLE_S: f64 = 1e6;

/// Makes engines that hand out each completion when the device would have it. A copy takes the time
/// of a write; what moves no bytes takes none.
///
/// The time of the device runs with the clock, and requests follow one another in it: delays of a
/// busy machine are caught up, so that rates are those of the device. All engines share it.
#[derive(Debug, Clone)]
pub struct DeviceEngines {
    inner: Backend,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    service: Service,
    chance: Chance,
    engines: usize,
    /// When the oldest of these engines was made, by the device and by the clock.
    begun_s: f64,
    begun: Instant,
}

impl DeviceEngines {
    /// Engines of that backend, on one device.
    pub fn new(inner: Backend, device: Device) -> Self {
        let (service, chance, begun) = (Service::new(device), Chance(1), Instant::now());
        let shared = Shared { service, chance, engines: 0, begun_s: 0.0, begun };
        Self { inner, shared: Arc::new(Mutex::new(shared)) }
    }
}

impl EngineFactory for DeviceEngines {
    fn build(&self, depth: usize) -> Result<Box<dyn Engine>> {
        let inner = self.inner.build(depth)?;
        let (begun_s, begun) = lock(&self.shared).begin();
        let shared = Arc::clone(&self.shared);
        Ok(Box::new(DeviceEngine {
            inner,
            shared,
            begun_s,
            begun,
            now_s: None,
            due: Vec::new(),
            kept: Vec::new(),
        }))
    }
}

impl Shared {
    /// One engine more; what its time begins with.
    fn begin(&mut self) -> (f64, Instant) {
        if self.engines == 0 {
            (self.begun_s, self.begun) = (self.begun_s + IDLE_S, Instant::now());
        }
        self.engines += 1;
        (self.begun_s, self.begun)
    }
}

impl Drop for DeviceEngine {
    fn drop(&mut self) {
        lock(&self.shared).engines -= 1;
    }
}

struct DeviceEngine {
    inner: Box<dyn Engine>,
    shared: Arc<Mutex<Shared>>,
    /// A moment of the device, and the same one of the clock.
    begun_s: f64,
    begun: Instant,
    /// The moment of the device up to which completions were returned; at first, that of the first
    /// request.
    now_s: Option<f64>,
    /// When requests in flight end, by token.
    due: Vec<(u64, f64)>,
    /// Requests that the inner engine has done, and the device has not.
    kept: Vec<Completion>,
}

impl Engine for DeviceEngine {
    fn name(&self) -> &'static str {
        "device"
    }

    fn depth(&self) -> usize {
        self.inner.depth()
    }

    fn in_flight(&self) -> usize {
        self.due.len()
    }

    fn submit(&mut self, request: Request) {
        assert!(self.in_flight() < self.depth(), "more than {} requests in flight", self.depth());
        let now_s = *self.now_s.get_or_insert_with(|| self.begun_s + self.begun.elapsed().as_secs_f64());
        let bytes = request.operation.asked_bytes();
        let end_s = match request.operation.kind() {
            OperationKind::Read => self.serve(now_s, true, bytes),
            OperationKind::Write | OperationKind::CopyRange => self.serve(now_s, false, bytes),
            _ => now_s,
        };
        self.due.push((request.token, end_s));
        self.inner.submit(request);
    }

    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<()> {
        self.collect(min, None, completions)
    }

    fn reap_until(&mut self, min: usize, deadline: Instant, completions: &mut Vec<Completion>) -> Result<()> {
        self.collect(min, Some(deadline), completions)
    }
}

impl DeviceEngine {
    fn serve(&self, now_s: f64, is_read: bool, len: u64) -> f64 {
        let Shared { service, chance, .. } = &mut *lock(&self.shared);
        service.serve(now_s, is_read, len as f64, chance)
    }

    /// The clock's moment for one of the device.
    fn instant(&self, at_s: f64) -> Instant {
        self.begun + Duration::from_secs_f64((at_s - self.begun_s).max(0.0))
    }

    fn collect(
        &mut self,
        min: usize,
        deadline: Option<Instant>,
        completions: &mut Vec<Completion>,
    ) -> Result<()> {
        // The real operations take next to no time beside those of the device.
        self.inner.reap(self.inner.in_flight(), &mut self.kept)?;
        self.due.sort_by(|left, right| left.1.total_cmp(&right.1));
        let mut handed_out = 0;
        while let Some(&(token, end_s)) = self.due.first() {
            let ready = self.instant(end_s);
            let wanted = handed_out < min && deadline.is_none_or(|deadline| ready <= deadline);
            if !wanted && ready > Instant::now() {
                break;
            }
            thread::sleep(ready.saturating_duration_since(Instant::now()));
            self.due.remove(0);
            self.now_s = Some(self.now_s.unwrap_or(end_s).max(end_s));
            if let Some(at) = self.kept.iter().position(|completion| completion.token == token) {
                completions.push(self.kept.swap_remove(at));
            }
            handed_out += 1;
        }
        if let Some(deadline) = deadline
            && handed_out < min
            && !self.due.is_empty()
        {
            thread::sleep(deadline.saturating_duration_since(Instant::now()));
        }
        Ok(())
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("engines", &self.engines).finish_non_exhaustive()
    }
}

impl fmt::Debug for DeviceEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceEngine").field("in_flight", &self.due.len()).finish_non_exhaustive()
    }
}
