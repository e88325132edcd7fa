//! The same work with svfsc, from Python.

use std::process::Command;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use super::memory::{Case, STRIDE};
use super::work::Work;

/// Does one piece of work. It also times the same loops with a call that does nothing, which is
/// what the interpreter takes.
const WORK: &str = r#"
import json, operator, statistics, sys, threading, time
import svfsc
work = json.loads(sys.argv[1])

def prepared(calls):
    first, step, count, around = calls["first"], calls["step"], calls["count"], calls["around"]
    if around:
        at = [first + number * step % around for number in range(count)]
    elif step:
        at = range(first, first + step * count, step)
    else:
        at = [first] * count
    return at, calls["len"], bytes(number % 32 for number in range(calls["len"]))

def reads(call, calls):
    for positions, length, block in calls:
        for at in positions:
            call(at, length)

def writes(call, calls):
    for positions, length, block in calls:
        for at in positions:
            call(at, block)

def evicting(call, calls, evict, budget):
    for positions, length, block in calls:
        for at in positions:
            call(at, block)
            evict(budget)

def once():
    file = svfsc.cSVF("peers")
    writes(file.write, [prepared(calls) for calls in work["before"]])
    calls = [[prepared(calls) for calls in thread] for thread in work["threads"]]
    budget = work["budget_bytes"]
    if work["kind"] == "write" and budget is not None:
        loop, arguments, idle = evicting, (file.write,), (operator.is_,)
        more, idle_more = (file.lru_punt, budget), (abs, budget)
    else:
        loop = writes if work["kind"] == "write" else reads
        arguments, idle, more, idle_more = (getattr(file, work["kind"]),), (operator.is_,), (), ()
    if len(calls) == 1:
        began = time.perf_counter()
        loop(*arguments, calls[0], *more)
        took = time.perf_counter() - began
    else:
        began = time.perf_counter()
        threads = [threading.Thread(target=loop, args=(*arguments, one, *more)) for one in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.perf_counter() - began
    began = time.perf_counter()
    for one in calls:
        loop(*idle, one, *idle_more)
    return took, time.perf_counter() - began

all = []
while len(all) < work["repeats"] or (len(all) < 15 and sum(took for took, _ in all) < 0.05):
    all.append(once())
print(json.dumps({"took": statistics.median(took for took, _ in all), "idle": statistics.median(idle for _, idle in all)}))
"#;

/// How much more memory of its own a process has when blocks are held; pages of files that it runs
/// do not count.
const MEMORY: &str = r#"
import resource, sys
import svfsc
block_bytes, count, stride, step = (int(argument) for argument in sys.argv[1:])
def resident():
    with open("/proc/self/statm") as file:
        fields = file.read().split()
    return (int(fields[1]) - int(fields[2])) * resource.getpagesize()
block = bytes(number % 32 for number in range(block_bytes))
file = svfsc.cSVF("peers")
file.write(0, block)
before = resident()
for number in range(1, count):
    file.write(number * step % count * stride, block)
print(resident() - before)
"#;

/// Replays a trace: what is needed is fetched, one request each, of zeros.
const REPLAY: &str = r#"
import json, sys
import svfsc
path, greedy = sys.argv[1], int(sys.argv[2])
file, requests, fetched, length = svfsc.cSVF("peers"), 0, 0, 0
for line in open(path):
    if line.startswith('#'):
        length = int(line.rsplit("file size", 1)[1]) if "file size" in line else length
        continue
    at, size = (int(number) for number in line.split(","))
    for start, size in file.need(at, size, greedy):
        size = min(size, length - start) if length else size
        file.write(start, bytes(size))
        requests, fetched = requests + 1, fetched + size
print(json.dumps([requests, fetched]))
"#;

/// svfsc as some Python has it.
#[derive(Debug)]
pub(crate) struct Svfsc {
    python: String,
    /// Its version.
    pub(crate) version: String,
}

impl Svfsc {
    /// svfsc of this Python, if it is installed there.
    pub(crate) fn find(python: &str) -> Option<Self> {
        let script = "import importlib.metadata as m, svfsc; print(m.version('svfsc'))";
        let output = Command::new(python).args(["-c", script]).output().ok()?;
        let version = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
        Some(Self { python: python.to_owned(), version: version.trim().to_owned() })
    }

    /// Runs a script; returns its output.
    fn script(&self, script: &str, arguments: &[String]) -> anyhow::Result<String> {
        let output = Command::new(&self.python).arg("-c").arg(script).args(arguments).output()?;
        ensure!(output.status.success(), "svfsc failed: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// Seconds of one piece of work.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Timed {
    /// All of it.
    pub(crate) took: f64,
    /// What the interpreter takes for the same loops.
    pub(crate) idle: f64,
}

/// Does the work.
pub(crate) fn seconds(svfsc: &Svfsc, work: &Work) -> anyhow::Result<Timed> {
    let reported = svfsc.script(WORK, &[serde_json::to_string(work)?])?;
    serde_json::from_str(&reported).with_context(|| format!("svfsc reported {reported:?}"))
}

/// By how much the memory of a fresh process grew.
pub(crate) fn resident(svfsc: &Svfsc, case: &Case) -> anyhow::Result<f64> {
    let numbers = [case.block_bytes, case.count, STRIDE, case.step];
    let reported = svfsc.script(MEMORY, &numbers.map(|number| number.to_string()))?;
    reported.trim().parse().with_context(|| format!("svfsc reported {reported:?}"))
}

/// Requests and bytes of a trace.
pub(crate) fn replay(svfsc: &Svfsc, path: &str, greedy: u64) -> anyhow::Result<(u64, u64)> {
    let reported = svfsc.script(REPLAY, &[path.to_owned(), greedy.to_string()])?;
    serde_json::from_str(&reported).with_context(|| format!("svfsc reported {reported:?}"))
}
