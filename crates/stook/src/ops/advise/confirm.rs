//! One measured pair, beside what was predicted of it: files and a pack of the same files.

use std::path::Path;

use serde::Serialize;

use super::cluster::Cluster;
use super::measure::read_alone;
use super::model::{FileCost, LengthClasses, Predicted, alone};
use super::predict::Sampled;
use super::sample_pack::SamplePack;
use super::{AdviseError, Drawn, Stopping};
use crate::engine::drop_system_caches;

/// What was measured, and what was predicted of that.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Confirmed {
    /// Files that were read.
    pub files: usize,
    /// Bytes of these.
    pub bytes: u64,
    /// How long one reader needed for them, cold.
    pub files_s: f64,
    /// What was predicted.
    pub predicted_files_s: Predicted,
    /// How long loading the pack of them took, cold, for as many bytes.
    pub pack_s: f64,
    /// files ÷ pack.
    pub speedup: f64,
    /// What was predicted.
    pub predicted_speedup: f64,
    /// measured ÷ predicted − 1.
    pub error: f64,
}

/// Reads files that were drawn, and loads the pack of the sample, cold, in turn. What is predicted
/// of them comes from other readings of the same and of other files.
///
/// # Errors
/// When caches cannot be emptied, or the pack cannot be loaded.
pub(super) fn measure(
    tree: &Path,
    drawn: &Drawn,
    pack: &SamplePack,
    sampled: &Sampled,
    stopping: Stopping<'_>,
) -> Result<Confirmed, AdviseError> {
    drop_system_caches()?;
    let mut costs: Vec<FileCost> = Vec::new();
    let mut missed = 0;
    let half = drawn.by_files.len().div_ceil(2);
    let clusters: Vec<Cluster> = drawn.by_files.iter().take(half).cloned().collect();
    for cluster in &clusters {
        costs.extend(read_alone(cluster, 0, drawn.bounds(), stopping, &mut missed));
    }
    let load = pack.load()?;
    if stopping() {
        return Err(AdviseError::Interrupted);
    }
    let mut classes = LengthClasses::default();
    costs.iter().for_each(|cost| classes.add(cost.read_bytes, 1.0));
    let files_s: f64 = costs.iter().map(|cost| cost.seconds).sum();
    let bytes: u64 = costs.iter().map(|cost| cost.read_bytes).sum();
    let nothing = || AdviseError::Subject {
        path: tree.to_path_buf(),
        what: "has no file that could be read to confirm the prediction".into(),
    };
    let predicted_files_s = alone(&classes, &sampled.alone).ok_or_else(nothing)?;
    // As much of the pack as these files are, bytes and records alike.
    let share = bytes as f64 / pack.body_bytes.max(1) as f64;
    let pack_s = load.open_s + (load.load_s - load.open_s) * share;
    let loads = sampled.loads.as_ref().ok_or_else(nothing)?;
    let predicted_pack_s =
        super::model::loading(&loads.open_s, &loads.load_s, share).ok_or_else(nothing)?.value;
    let (speedup, predicted_speedup) = (files_s / pack_s, predicted_files_s.value / predicted_pack_s);
    Ok(Confirmed {
        files: costs.len(),
        bytes,
        files_s,
        predicted_files_s,
        pack_s,
        speedup,
        predicted_speedup,
        error: speedup / predicted_speedup - 1.0,
    })
}
