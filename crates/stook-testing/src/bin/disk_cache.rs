//! Reads a source through a cache on disk, and checks every byte. `disk_cache DIRECTORY BUDGET SEED
//! ROUNDS`; 0 rounds: forever. Prints what the cache did.
#![expect(clippy::unwrap_used, reason = "a broken promise ends the test")]

use std::sync::Arc;

use bytes::Bytes;
use stook::extent::ByteRange;
use stook::source::{Identity, MemorySource, Source};
use stook::sparse::{DiskCache, DiskCacheOptions, SparseFile, SparseFileOptions};
use stook_testing::conformance::pattern;

const LEN: usize = 4 << 20;
const SOURCES: u64 = 3;

/// Bytes in memory with distinguishable states.
#[derive(Debug)]
struct Tagged(MemorySource);

impl Source for Tagged {
    stook_testing::forward_source!(0: path len resolve);

    fn identity(&self) -> Identity {
        Identity { etag: Some("\"only\"".into()), ..self.0.identity() }
    }

    fn current_identity(&self) -> stook::Result<Identity> {
        Ok(self.identity())
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, budget, seed, rounds] = arguments.try_into().unwrap();
    let budget_bytes = budget.parse().unwrap();
    let (mut chance, rounds): (u64, u64) = (seed.parse().unwrap(), rounds.parse().unwrap());
    let mut random = move |below: u64| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (chance >> 33) % below
    };
    let all: Vec<Bytes> = (0..SOURCES).map(|number| pattern(LEN, number).into()).collect();
    let cache = DiskCache::open(directory, DiskCacheOptions { budget_bytes }).unwrap();
    let (mut round, mut from_disk) = (0, 0);
    while rounds == 0 || round < rounds {
        let number = random(SOURCES);
        let bytes = &all[number as usize];
        let source = MemorySource::new(format!("source {number}"), bytes.clone());
        let options = SparseFileOptions { disk: Some(cache.clone()), ..SparseFileOptions::default() };
        let file = SparseFile::with_options(Arc::new(Tagged(source)), Arc::default(), options);
        for _ in 0..random(20) + 1 {
            let start = random(LEN as u64);
            let end = (start + 1 + random(200_000)).min(LEN as u64);
            let got = file.read(ByteRange::new(start, end).unwrap()).unwrap();
            assert!(got == bytes[start as usize..end as usize], "source {number}, {start}..{end}");
        }
        from_disk += file.statistics().from_disk_bytes;
        if random(50) == 0 {
            cache.entry(&file.source().origin(), &file.identity()).discard();
        }
        round += 1;
    }
    println!("from_disk_bytes {from_disk}\n{:#?}", cache.statistics());
}
