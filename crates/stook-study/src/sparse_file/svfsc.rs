//! The same work with svfsc, from Python, where it is installed.

use std::process::Command;

use anyhow::{Context as _, ensure};

use super::work::{NEED_BLOCK_BYTES, NEED_BLOCKS, NEED_STRIDE_BYTES, TOTAL_BYTES, Work};

/// Times one kind of work: kind, size of the blocks, total, and for `need` blocks, their distance
/// and length.
const SCRIPT: &str = r#"
import sys, time
import svfsc
kind, size, total = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
file = svfsc.cSVF("study")
block = bytes(n % 256 for n in range(int(sys.argv[6]) if len(sys.argv) > 6 else size))
if kind == "read":
    file.write(0, bytes(total))
    began = time.perf_counter()
    for at in range(0, total, size):
        file.read(at, size)
elif kind == "apart":
    for number in range(total // size):
        file.write(number * (size + 1), block)
    began = time.perf_counter()
    for number in range(total // size):
        file.read(number * (size + 1), size)
elif kind == "all":
    count, stride = size, int(sys.argv[5])
    for number in range(count):
        file.write(number * stride, block)
    began = time.perf_counter()
    file.need(0, count * stride)
elif kind == "write":
    stride = size + int(sys.argv[4])
    began = time.perf_counter()
    for number in range(total // size):
        file.write(number * stride, block)
else:
    count, stride = int(sys.argv[4]), int(sys.argv[5])
    for number in range(count):
        file.write(number * stride, block)
    began = time.perf_counter()
    for at in range(0, count * stride, size):
        file.need(at, size)
print(time.perf_counter() - began)
"#;

/// svfsc as some Python has it.
#[derive(Debug)]
pub struct Svfsc {
    python: String,
    /// Its version.
    pub version: String,
}

impl Svfsc {
    /// svfsc of this Python, if it is installed there.
    pub fn find(python: &str) -> Option<Self> {
        let script = "import importlib.metadata as m, svfsc; print(m.version('svfsc'))";
        let output = Command::new(python).args(["-c", script]).output().ok()?;
        let version = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
        Some(Self { python: python.to_owned(), version: version.trim().to_owned() })
    }

    /// How long it takes; `None` for work that this comparison leaves out.
    pub(super) fn seconds(&self, work: Work) -> anyhow::Result<Option<f64>> {
        let total = TOTAL_BYTES;
        let arguments: Vec<String> = match work {
            Work::Read { block_bytes } => vec!["read".into(), block_bytes.to_string(), total.to_string()],
            Work::ReadApart { block_bytes } => {
                vec!["apart".into(), block_bytes.to_string(), total.to_string()]
            }
            Work::NeedAll { blocks } => {
                let numbers = [blocks, total, blocks, NEED_STRIDE_BYTES, NEED_BLOCK_BYTES];
                std::iter::once("all".to_owned()).chain(numbers.map(|number| number.to_string())).collect()
            }
            Work::WriteApart { block_bytes } => {
                vec!["write".into(), block_bytes.to_string(), total.to_string(), "1".into()]
            }
            Work::WriteJoined { block_bytes } => {
                vec!["write".into(), block_bytes.to_string(), total.to_string(), "0".into()]
            }
            Work::Need { ask_bytes } => {
                let numbers = [ask_bytes, total, NEED_BLOCKS, NEED_STRIDE_BYTES, NEED_BLOCK_BYTES];
                std::iter::once("need".to_owned()).chain(numbers.map(|number| number.to_string())).collect()
            }
            // Its Python module holds the interpreter's lock: threads are one after another there.
            Work::Threads { .. } | Work::Overwrite { .. } => return Ok(None),
        };
        let seconds = self.script(SCRIPT, &arguments)?.trim().parse().context("svfsc prints a time")?;
        Ok(Some(seconds))
    }

    /// Runs a script; returns its output.
    ///
    /// # Errors
    /// Returns an error if it fails, with its message.
    pub fn script(&self, script: &str, arguments: &[String]) -> anyhow::Result<String> {
        let output = Command::new(&self.python).arg("-c").arg(script).args(arguments).output()?;
        ensure!(output.status.success(), "svfsc failed: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }
}
