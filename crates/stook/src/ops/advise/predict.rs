//! From what was sampled to times, a threshold, and what to run. Pure.

use serde::Serialize;

use super::model::{
    FileCost, FileLine, LengthClasses, Predicted, TogetherCost, alone, loading, threshold_bytes, together,
};

/// What each file of a mounted pack costs beside its bytes: the messages between kernel and
/// server. 17 µs where 50,000 files of 20 KB were read by `find` and `cat`
/// (`docs/BENCHMARKS.md`, Mounting).
const MOUNTED_FILE_S: f64 = 20e-6;
/// Making a pack takes at most this much longer than reading the files by as many readers as is
/// best (`docs/BENCHMARKS.md`, Packing).
const MAKING_OVER_READING: f64 = 1.25;
/// A way that is not surely this many times as fast is not worth another layout of the data.
const WORTH_PACKING: f64 = 1.5;
/// Nor this many times, more readers.
const WORTH_READERS: f64 = 1.25;

/// A way of reading all of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WayKind {
    /// The files as they are, one after the other: any program that does nothing clever.
    Files,
    /// The files as they are, by several readers.
    Readers,
    /// Stitched into one file that does not exist: its parts are read by several readers.
    Stitched,
    /// All bytes copied into one file.
    Merged,
    /// A pack, loaded.
    Pack,
    /// A pack, mounted, read by any program.
    MountedPack,
}

/// What a prediction is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Files of this tree, or a pack of them, measured now.
    Sampled,
    /// The profile that was kept of the device.
    Profile,
    /// The first, and a cost that was measured elsewhere.
    Assumed,
}

/// How long a way takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Way {
    /// Which.
    pub way: WayKind,
    /// How many readers, where there are several.
    pub readers: Option<usize>,
    /// How long reading all of it takes.
    pub seconds: Predicted,
    /// Bytes of files ÷ that.
    pub bytes_per_s: f64,
    /// How many times as fast as the files, one after the other.
    pub speedup: Predicted,
    /// What it is made from.
    pub basis: Basis,
}

/// Loads of a sample pack, and of the same bytes without anything else.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Loads {
    /// Opening it, each time.
    pub open_s: Vec<f64>,
    /// Opening and loading.
    pub load_s: Vec<f64>,
    /// Bytes a second of its files, read past the page cache and discarded.
    pub reference_bytes_per_s: Vec<f64>,
    /// Bytes of its files.
    pub pack_bytes: f64,
    /// What a record takes besides its body.
    pub overhead_bytes: f64,
    /// Making it took this many bytes a second.
    pub made_bytes_per_s: f64,
}

/// Everything that predictions are made from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sampled {
    /// The lengths of all files.
    pub classes: LengthClasses,
    /// Files that one reader read.
    pub alone: Vec<FileCost>,
    /// Files that several read.
    pub together: Vec<TogetherCost>,
    /// Loads of a pack of some of them.
    pub loads: Option<Loads>,
    /// What the device is known to give in order, in bytes a second.
    pub known_bytes_per_s: Option<f64>,
}

/// What making a pack costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Making {
    /// Time.
    pub seconds: f64,
    /// Room.
    pub bytes: f64,
    /// After this many reads it has paid; `None` where it never does.
    pub pays_after_reads: Option<f64>,
}

/// What follows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// What a file costs one reader.
    pub file: FileLine,
    /// Which share of one reader's time is what files cost beside their bytes.
    pub file_share: f64,
    /// What the device gives in order, in bytes a second.
    pub device_bytes_per_s: Option<f64>,
    /// Greatest less least of the reference reads ÷ their median: how far the device drifts.
    pub drift: Option<f64>,
    /// All ways, that of one reader first.
    pub ways: Vec<Way>,
    /// Below this length a file is read at less than 90% of the speed of the device.
    pub threshold_bytes: Option<f64>,
    /// How many files are.
    pub files_below: Option<f64>,
    /// What making a pack costs.
    pub making: Option<Making>,
    /// What to do.
    pub action: Action,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Pack it.
    Pack,
    /// Read it by several readers.
    Readers,
    /// Leave it as it is.
    None,
}

impl Prediction {
    /// Predicts. `None` where no file was read.
    pub fn of(sampled: &Sampled) -> Option<Self> {
        let Sampled { classes, alone: costs, loads, .. } = sampled;
        let (files, bytes) = (classes.files(), classes.bytes());
        let device = sampled.device_bytes_per_s();
        let file = FileLine::fit(costs, device.map_or(0.0, f64::recip))?;
        let one = alone(classes, costs)?;
        let least_s = device.map_or(0.0, |device| bytes / device);
        let mut ways = Ways { all: Vec::new(), one, bytes };
        ways.add(WayKind::Files, None, one, Basis::Sampled);
        let readers = sampled.best_readers();
        if let Some(seconds) = together(one, costs, &readers, least_s) {
            let number = readers.first().map(|seen| seen.readers);
            ways.add(WayKind::Readers, number, seconds, Basis::Sampled);
            ways.add(WayKind::Stitched, number, seconds, Basis::Sampled);
        }
        let known = if loads.is_some() { Basis::Sampled } else { Basis::Profile };
        if let Some(device) = device {
            ways.add(WayKind::Merged, None, Predicted::exactly(bytes / device), known);
        }
        let pack = sampled.pack(files, bytes);
        if let Some(seconds) = pack {
            ways.add(WayKind::Pack, None, seconds, known);
            let mounted = seconds.map(|seconds| seconds + files * MOUNTED_FILE_S);
            ways.add(WayKind::MountedPack, None, mounted, Basis::Assumed);
        }
        let threshold = device.map(|device| threshold_bytes(file.file_s, device));
        let best_s = ways.seconds(WayKind::Readers).unwrap_or(one.value).min(one.value);
        let making = pack.map(|pack| sampled.making(best_s, files, bytes, one.value - pack.value));
        Some(Self {
            file,
            file_share: (files * file.file_s / one.value).clamp(0.0, 1.0),
            device_bytes_per_s: device,
            drift: loads.as_ref().and_then(Loads::drift),
            threshold_bytes: threshold,
            files_below: threshold.map(|bytes| classes.files_below(bytes as u64)),
            making,
            action: ways.action(),
            ways: ways.all,
        })
    }

    /// One of the ways, if it was predicted.
    pub fn way(&self, kind: WayKind) -> Option<&Way> {
        self.ways.iter().find(|way| way.way == kind)
    }
}

impl Sampled {
    fn device_bytes_per_s(&self) -> Option<f64> {
        let read = self.loads.as_ref().and_then(|loads| Predicted::of_rounds(&loads.reference_bytes_per_s));
        read.map(|read| read.value).or(self.known_bytes_per_s).filter(|rate| *rate > 0.0)
    }

    /// What was seen of the number of readers with the most bytes and files for its time.
    fn best_readers(&self) -> Vec<TogetherCost> {
        let rate = |number: usize| {
            let seen = self.together.iter().filter(|seen| seen.readers == number);
            let (files, seconds) = seen.fold((0, 0.0), |(files, seconds), one| {
                (files + one.read_bytes.len(), seconds + one.seconds)
            });
            files as f64 / f64::max(seconds, 1e-9)
        };
        let numbers = self.together.iter().map(|seen| seen.readers);
        let best = numbers.max_by(|left, right| rate(*left).total_cmp(&rate(*right)));
        self.together.iter().filter(|seen| Some(seen.readers) == best).cloned().collect()
    }

    fn pack_bytes(&self, files: f64, bytes: f64) -> f64 {
        bytes + files * self.loads.as_ref().map_or(64.0, |loads| loads.overhead_bytes)
    }

    fn pack(&self, files: f64, bytes: f64) -> Option<Predicted> {
        let pack_bytes = self.pack_bytes(files, bytes);
        match &self.loads {
            Some(loads) => loading(&loads.open_s, &loads.load_s, pack_bytes / loads.pack_bytes.max(1.0)),
            None => self.known_bytes_per_s.map(|rate| Predicted::exactly(pack_bytes / rate)),
        }
    }

    fn making(&self, reading_s: f64, files: f64, bytes: f64, gained_s: f64) -> Making {
        let room = self.pack_bytes(files, bytes);
        let writing_s = self.loads.as_ref().map_or(0.0, |loads| room / loads.made_bytes_per_s.max(1.0));
        let seconds = (reading_s * MAKING_OVER_READING).max(writing_s);
        Making { seconds, bytes: room, pays_after_reads: (gained_s > 0.0).then(|| seconds / gained_s) }
    }
}

impl Loads {
    fn drift(&self) -> Option<f64> {
        let of = Predicted::of_rounds(&self.reference_bytes_per_s)?.value;
        let most = self.reference_bytes_per_s.iter().copied().fold(0.0, f64::max);
        let least = self.reference_bytes_per_s.iter().copied().fold(f64::INFINITY, f64::min);
        Some((most - least) / of)
    }
}

/// Ways, as they are added.
struct Ways {
    all: Vec<Way>,
    one: Predicted,
    bytes: f64,
}

impl Ways {
    fn add(&mut self, way: WayKind, readers: Option<usize>, seconds: Predicted, basis: Basis) {
        let speedup = self.one.over(seconds);
        let bytes_per_s = self.bytes / seconds.value;
        self.all.push(Way { way, readers, seconds, bytes_per_s, speedup, basis });
    }

    fn find(&self, kind: WayKind) -> Option<&Way> {
        self.all.iter().find(|way| way.way == kind)
    }

    fn seconds(&self, kind: WayKind) -> Option<f64> {
        Some(self.find(kind)?.seconds.value)
    }

    /// A pack where it is surely worth it and the readers do not do as much; then the readers.
    fn action(&self) -> Action {
        let (pack, readers) = (self.find(WayKind::Pack), self.find(WayKind::Readers));
        let is_worth = |way: Option<&Way>, least: f64| way.is_some_and(|way| way.speedup.low >= least);
        let over_readers = match (pack, readers) {
            (Some(pack), Some(readers)) => readers.seconds.value / pack.seconds.value,
            _ => f64::INFINITY,
        };
        match () {
            () if is_worth(pack, WORTH_PACKING) && over_readers >= WORTH_READERS => Action::Pack,
            () if is_worth(readers, WORTH_READERS) => Action::Readers,
            () if is_worth(pack, WORTH_PACKING) => Action::Pack,
            () => Action::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of one length that take this long each, by one reader and by many.
    fn sampled(files: usize, len: u64, file_s: f64, device: f64) -> Sampled {
        let mut classes = LengthClasses::default();
        (0..files).for_each(|_| classes.add(len, 1.0));
        let seconds = file_s + len as f64 / device;
        let cost = |at: usize| FileCost { cluster: at / 20, len, read_bytes: len, seconds };
        let (sample, overhead) = (200.0, 100.0);
        let pack_bytes = sample * (len as f64 + overhead);
        let loads = Loads {
            open_s: vec![1e-3; 5],
            load_s: vec![1e-3 + pack_bytes / device; 5],
            reference_bytes_per_s: vec![device; 5],
            pack_bytes,
            overhead_bytes: overhead,
            made_bytes_per_s: device / 2.0,
        };
        let wall = seconds * 100.0 / 8.0;
        let seen = TogetherCost { readers: 16, read_bytes: vec![len; 100], seconds: wall };
        Sampled {
            classes,
            alone: (0..200).map(cost).collect(),
            together: vec![seen; 5],
            loads: Some(loads),
            known_bytes_per_s: None,
        }
    }

    #[test]
    fn small_files_are_packed_and_the_gain_is_what_they_cost() {
        let found = Prediction::of(&sampled(50_000, 20_000, 150e-6, 1e9)).unwrap();
        let (one, pack) = (found.way(WayKind::Files).unwrap(), found.way(WayKind::Pack).unwrap());
        assert!((one.seconds.value - 8.5).abs() < 0.01, "{one:?}");
        assert!((pack.seconds.value - 1.006).abs() < 0.01, "{pack:?}");
        assert!((pack.speedup.value - 8.45).abs() < 0.1);
        assert_eq!(found.action, Action::Readers, "eight readers' worth is all there is to gain");
        assert!((found.file_share - 7.5 / 8.5).abs() < 0.2);
        let making = found.making.unwrap();
        assert!(making.seconds >= 2.0 && making.pays_after_reads.unwrap() < 1.0, "{making:?}");
    }

    #[test]
    fn what_costs_next_to_nothing_to_open_is_left_alone() {
        let mut sampled = sampled(20, 300 << 20, 1e-4, 1e9);
        for seen in &mut sampled.together {
            seen.seconds *= 8.0;
        }
        let found = Prediction::of(&sampled).unwrap();
        assert_eq!(found.action, Action::None, "{found:?}");
        assert!(found.files_below.unwrap() < 1.0);
    }

    #[test]
    fn readers_that_gain_as_much_come_before_another_layout() {
        let mut sampled = sampled(50_000, 20_000, 150e-6, 1e9);
        for seen in &mut sampled.together {
            seen.seconds *= 4.0;
        }
        assert_eq!(Prediction::of(&sampled).unwrap().action, Action::Pack);
    }

    #[test]
    fn without_a_pack_the_profile_says_what_the_device_gives_and_without_either_nothing_is_guessed() {
        let mut sampled = Sampled { loads: None, ..sampled(5000, 20_000, 150e-6, 1e9) };
        let found = Prediction::of(&sampled).unwrap();
        assert!(found.way(WayKind::Pack).is_none() && found.threshold_bytes.is_none());
        sampled.known_bytes_per_s = Some(1e9);
        let found = Prediction::of(&sampled).unwrap();
        assert_eq!(found.way(WayKind::Pack).unwrap().basis, Basis::Profile);
        assert_eq!(Prediction::of(&Sampled::default()), None);
    }
}
