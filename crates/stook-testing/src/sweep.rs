//! Long sweeps: a sample of them in CI, the whole by `make soak`.

use std::collections::BTreeSet;
use std::env;
use std::sync::Arc;

use crate::fault::FaultCalls;

/// Returns 1 where whole sweeps were requested (`STOOK_SWEEPS=whole`), else `sampled`.
///
/// A sweep visits every `stride`-th of its cases. Choose a `sampled` that shares no factor with the
/// period of the cases (8 bits, 4,096 bytes), so that every kind of case is met.
pub fn stride(sampled: usize) -> usize {
    if env::var_os("STOOK_SWEEPS").is_some_and(|value| value == "whole") { 1 } else { sampled.max(1) }
}

/// Makes one call after another fail: the first of a run, that of the next run, and so on in steps,
/// until a run meets none any more. `check` is handed what came of each run, the number of the call
/// and its name. All names that were met.
pub fn each_call<T>(
    step: usize,
    calls: impl Fn(usize) -> FaultCalls,
    mut run: impl FnMut(Arc<FaultCalls>) -> T,
    mut check: impl FnMut(T, usize, &'static str),
) -> BTreeSet<&'static str> {
    let mut met = BTreeSet::new();
    for nth in (0..).step_by(stride(step)) {
        let calls = Arc::new(calls(nth));
        let done = run(calls.clone());
        let Some(name) = calls.met() else { break };
        met.insert(name);
        check(done, nth, name);
    }
    met
}

/// The same where several threads make the calls, whose order is another one in each run: for each
/// of these names one call after another.
pub fn each_named_call<T>(
    step: usize,
    names: &[&'static str],
    calls: impl Fn(&'static str, usize) -> FaultCalls,
    mut run: impl FnMut(Arc<FaultCalls>) -> T,
    mut check: impl FnMut(T, usize, &'static str),
) -> BTreeSet<&'static str> {
    let of_name = |name| each_call(step, |nth| calls(name, nth), &mut run, &mut check);
    names.iter().copied().flat_map(of_name).collect()
}

/// Panics unless each of these calls has failed once.
///
/// # Panics
/// As it says.
pub fn assert_met<'a>(met: &BTreeSet<&'static str>, expected: impl IntoIterator<Item = &'a str>) {
    let missing: Vec<_> = expected.into_iter().filter(|call| !met.contains(call)).collect();
    assert!(missing.is_empty(), "{missing:?} never failed: {met:?}");
}
