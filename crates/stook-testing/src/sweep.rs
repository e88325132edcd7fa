//! Long sweeps: a sample of them in CI, the whole by `make soak`.

use std::env;

/// Returns 1 where whole sweeps were requested (`STOOK_SWEEPS=whole`), else `sampled`.
///
/// A sweep visits every `stride`-th of its cases. Choose a `sampled` that shares no factor with the
/// period of the cases (8 bits, 4,096 bytes), so that every kind of case is met.
pub fn stride(sampled: usize) -> usize {
    if env::var_os("STOOK_SWEEPS").is_some_and(|value| value == "whole") { 1 } else { sampled.max(1) }
}
