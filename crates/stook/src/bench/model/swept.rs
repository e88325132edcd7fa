//! [`Models`]: everything that can be fitted to a result, found in it.

use std::collections::BTreeSet;

use serde::Serialize;
use serde::ser::{SerializeStruct as _, Serializer};

use super::ModelError;
use super::block::BlockModel;
use super::cell::Cell;
use super::depth::DepthModel;
use super::mix::MixModel;
use crate::bench::result::{BenchResult, CellResult};
use crate::bench::workload::Workload;

/// Fewer block sizes, depths or read shares than this are not a sweep.
const VALUES_MIN: usize = 3;

/// A model, or the reason why it is missing.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted<T>(pub Result<T, ModelError>);

/// A model and the cells that it was fitted to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Swept<T: Serialize> {
    /// Their positions in the result.
    pub cells: Vec<usize>,
    /// The model.
    #[serde(flatten)]
    pub fitted: Fitted<T>,
}

/// The models of the cells of a result: one for each group of them that differs in only one
/// parameter, with at least three values of it. Cells of open loops are left out, because there the
/// schedule sets the rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Models {
    /// Latency against block size.
    pub blocks: Vec<Swept<BlockModel>>,
    /// Throughput against depth.
    pub depths: Vec<Swept<DepthModel>>,
    /// Reads and writes at once.
    pub mixes: Vec<Swept<MixModel>>,
}

impl<T> Fitted<T> {
    /// The model, if there is one.
    pub fn model(&self) -> Option<&T> {
        self.0.as_ref().ok()
    }

    /// Why the model is missing.
    pub fn refused(&self) -> Option<String> {
        self.0.as_ref().err().map(ToString::to_string)
    }
}

impl<T: Serialize> Serialize for Fitted<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Fitted", 2)?;
        fields.serialize_field("model", &self.model())?;
        fields.serialize_field("refused", &self.refused())?;
        fields.end()
    }
}

impl Models {
    /// Fits all models that can be fitted.
    pub fn of(result: &BenchResult) -> Self {
        let blocks = sweeps(result, |cell| cell.block_size, |cell| Workload { block_size: 0, ..cell });
        let depths = sweeps(result, |cell| u64::from(cell.depth), |cell| Workload { depth: 0, ..cell });
        let mixes =
            sweeps(result, |cell| u64::from(cell.read_share), |cell| Workload { read_share: 0, ..cell });
        Self {
            blocks: swept(result, blocks, BlockModel::fit),
            depths: swept(result, depths, |cells| DepthModel::fit(cells, None)),
            mixes: swept(result, mixes, MixModel::fit),
        }
    }
}

/// One model for each group of cells.
fn swept<T: Serialize, C: for<'c> From<&'c Cell>>(
    result: &BenchResult,
    groups: Vec<Vec<usize>>,
    fit: impl Fn(&[C]) -> Result<T, ModelError>,
) -> Vec<Swept<T>> {
    let cell = |&at: &usize| result.cells.get(at).map(|cell| C::from(&Cell::of(cell)));
    let one = |cells: Vec<usize>| {
        let measured: Vec<C> = cells.iter().filter_map(cell).collect();
        Swept { fitted: Fitted(fit(&measured)), cells }
    };
    groups.into_iter().map(one).collect()
}

/// Groups of closed-loop cells that differ only in one parameter, with enough different values of
/// it.
fn sweeps(
    result: &BenchResult,
    value: impl Fn(&Workload) -> u64,
    rest: impl Fn(Workload) -> Workload,
) -> Vec<Vec<usize>> {
    let mut groups: Vec<(Workload, BTreeSet<u64>, Vec<usize>)> = Vec::new();
    for (at, CellResult { workload, .. }) in result.cells.iter().enumerate() {
        if workload.rate_per_s.is_some() {
            continue;
        }
        let rest = rest(workload.clone());
        let known = groups.iter().position(|(known, ..)| *known == rest);
        let group = match known {
            Some(known) => groups.get_mut(known),
            None => {
                groups.push((rest, BTreeSet::new(), Vec::new()));
                groups.last_mut()
            }
        };
        if let Some((_, values, cells)) = group {
            values.insert(value(workload));
            cells.push(at);
        }
    }
    groups.into_iter().filter(|(_, values, _)| values.len() >= VALUES_MIN).map(|(.., cells)| cells).collect()
}
