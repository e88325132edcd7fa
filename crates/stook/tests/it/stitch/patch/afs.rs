//! AFS.

use std::fs;

use proptest::prelude::*;
use stook::format::afs::{Detail, Layout};
use stook::tree::CaseRule;

use super::{TIME, bytes_of, folder, in_memory, patched, put, refusal};
use crate::afs::{Body, written};

fn body() -> impl Strategy<Value = Vec<u8>> {
    let len = prop_oneof![4 => 0..100_usize, 1 => 2000..2100_usize, 1 => 4000..9000_usize];
    (len, 1..=u8::MAX).prop_map(|(len, byte)| vec![byte; len])
}

/// What becomes of a member: nothing, replaced, deleted.
type Change = Option<Body>;

fn members() -> impl Strategy<Value = Vec<(Body, Change)>> {
    let change = prop::option::of(prop::option::weighted(0.7, body()));
    prop::collection::vec((prop::option::weighted(0.8, body()), change), 0..20)
}

/// Details as they are written in most files: names, times, lengths.
fn details(bodies: &[Body]) -> Vec<Detail> {
    let detail = |(number, body): (usize, &Body)| {
        let len = body.as_ref().map_or(0, Vec::len) as u32;
        Detail::new(format!("name {number}").as_bytes(), 77_000_000_000, len).unwrap()
    };
    bodies.iter().enumerate().map(detail).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn it_is_what_a_naive_builder_makes(
        members in members(),
        appended in prop::collection::vec(body(), 0..3),
        more in prop_oneof![4 => Just(0_usize), 1 => 200..300_usize],
        with_details in any::<bool>(),
        by_name in any::<bool>(),
    ) {
        let place = tempfile::tempdir().unwrap();
        let (mut before, changes): (Vec<Body>, Vec<Change>) = members.into_iter().unzip();
        // So many that the table grows by another page, with some of those that are appended.
        before.extend(vec![None; more]);
        let details_before = details(&before);
        let (mut after, mut details_after) = (before.clone(), details_before.clone());
        let time = Detail::new(b"", TIME as i64 * 1_000_000_000, 0).unwrap().time;
        for (number, change) in changes.into_iter().enumerate() {
            let Some(change) = change else { continue };
            let is_named = by_name && with_details;
            let name = if is_named { format!("name {number}") } else { format!("{number:05}_any.adx") };
            if let Some(bytes) = &change {
                put(place.path(), &name, bytes);
                let len = bytes.len() as u32;
                details_after[number] = Detail { time, number: len, ..details_after[number] };
            } else if before[number].is_some() {
                put(place.path(), &format!("{name}.del"), b"");
            } else {
                continue;
            }
            after[number] = change;
        }
        for (number, bytes) in (before.len()..).zip(&appended) {
            put(place.path(), &format!("{number}_new{number}"), bytes);
            after.push(Some(bytes.clone()));
            let name = format!("new{number}");
            let made = Detail::new(name.as_bytes(), TIME as i64 * 1_000_000_000, bytes.len() as u32);
            details_after.push(made.unwrap());
        }
        let has_details = with_details && !before.is_empty();
        let afs = written(&before, has_details.then_some(&details_before));
        prop_assert!(bytes_of(&afs, &[]) == afs);
        let wanted = written(&after, has_details.then_some(&details_after));
        prop_assert!(bytes_of(&afs, &[place.path()]) == wanted);
    }
}

#[test]
fn other_ways_of_writing_it_stay_what_they_are() {
    let bodies = [Some(vec![1; 100]), Some(vec![2; 3000])];
    let made = written(&bodies, Some(&details(&bodies)));
    // Another magic; the place of the details before the first member; words that nobody knows.
    let mut file = made.clone();
    file[3] = b' ';
    file.copy_within(24..32, 2040);
    file[24..32].fill(0);
    file[1000..1010].fill(9);
    file[2148..2200].fill(8);
    let last = file.len() - 1;
    file[last] = 7;
    assert!(bytes_of(&file, &[]) == file);
    let over = folder(&[("0.adx", &[3; 50])]);
    let after = bytes_of(&file, &[over.path()]);
    assert_eq!(after.len(), file.len());
    assert_eq!(after[..2048], [&file[..12], &50_u32.to_le_bytes(), &file[16..2048]].concat());
    assert_eq!(after[2048..2098], [3; 50]);
    assert_eq!(after[4096..8192], file[4096..8192]);
    assert_eq!(after[last], 7);
    // A member that is longer than its slot moves what follows, and the place before the first.
    let over = folder(&[("00000", &[3; 2049])]);
    let after = bytes_of(&file, &[over.path()]);
    assert_eq!(after[6144..6144 + 3000], [2; 3000]);
    assert_eq!(after[2040..2044], (8192_u32 + 2048).to_le_bytes());
    // Members that begin anywhere, the first of them directly after the table.
    let mut tight = b"AFS\0\x02\0\0\0\x18\0\0\0\x05\0\0\0\x1d\0\0\0\x03\0\0\0".to_vec();
    tight.extend(b"helloyou");
    assert_eq!(bytes_of(&tight, &[]), tight);
    let over = folder(&[("1", b"everybody")]);
    let after = bytes_of(&tight, &[over.path()]);
    assert_eq!(after[24..], *b"helloeverybody");
    assert_eq!(after[20..24], 9_u32.to_le_bytes());
    let over = folder(&[("0", b"good day, ")]);
    let after = bytes_of(&tight, &[over.path()]);
    // As far from a multiple of 2,048 as it was.
    assert_eq!((&after[24..34], &after[29 + 2048..]), (&b"good day, "[..], &b"you"[..]));
}

/// Details with which the members of [`TIME`] are called as what is appended.
fn appended(number: usize, len: usize) -> Detail {
    Detail::new(format!("new{number}").as_bytes(), TIME as i64 * 1_000_000_000, len as u32).unwrap()
}

#[test]
fn a_table_that_is_full_grows_and_moves_what_follows() {
    // 254 places fill 2,048 bytes with that of the details.
    for count in 252..256 {
        for more in 1..4 {
            let mut bodies: Vec<Body> = vec![None; count];
            bodies[7] = Some(vec![7; 3000]);
            bodies[100] = Some(vec![]);
            let mut all = details(&bodies);
            let before = written(&bodies, Some(&all));
            let over = folder(&[]);
            for number in count..count + more {
                put(over.path(), &format!("{number}_new{number}"), &vec![9; 1000 + number]);
                bodies.push(Some(vec![9; 1000 + number]));
                all.push(appended(number, 1000 + number));
            }
            assert!(bytes_of(&before, &[over.path()]) == written(&bodies, Some(&all)), "{count} {more}");
            let bare = written(&bodies[..count], None);
            assert!(bytes_of(&bare, &[over.path()]) == written(&bodies, None), "{count} {more}");
        }
    }
}

#[test]
fn the_place_of_the_details_stays_before_the_first_member() {
    for count in [3, 254, 255] {
        let mut bodies: Vec<Body> = vec![None; count];
        bodies[1] = Some(vec![7; 3000]);
        let before_first = |bodies: &[Body], all: &[Detail]| {
            let mut file = written(bodies, Some(all));
            let (from, first) = (8 + 8 * bodies.len(), (16 + 8 * bodies.len()).next_multiple_of(2048));
            file.copy_within(from..from + 8, first - 8);
            if from + 8 < first {
                file[from..from + 8].fill(0);
            }
            file
        };
        let mut all = details(&bodies);
        let file = before_first(&bodies, &all);
        assert!(bytes_of(&file, &[]) == file);
        let over = folder(&[]);
        put(over.path(), &format!("{count}_new{count}"), b"new");
        bodies.push(Some(b"new".to_vec()));
        all.push(appended(count, 3));
        let wanted = match count {
            // It follows the table there, and goes on doing so.
            254 => written(&bodies, Some(&all)),
            _ => before_first(&bodies, &all),
        };
        assert!(bytes_of(&file, &[over.path()]) == wanted, "{count}");
    }
}

#[test]
fn numbers_that_repeat_the_table_go_on_doing_so() {
    let bodies = [Some(vec![1; 100]), Some(vec![2; 3000]), Some(vec![3; 10])];
    let places = Layout::new(&[Some(100), Some(3000), Some(10)], true).unwrap().places().to_vec();
    let mut all = details(&bodies);
    let words = places.iter().flat_map(|place| [place.unwrap().start(), place.unwrap().len()]);
    for (detail, word) in all.iter_mut().zip(words) {
        detail.number = word as u32;
    }
    let over = folder(&[("0", &[5; 5000])]);
    let after = bytes_of(&written(&bodies, Some(&all)), &[over.path()]);
    let details = Detail::decode_all(&after[14_336..14_336 + 144]).unwrap();
    assert_eq!(details.iter().map(|detail| detail.number).collect::<Vec<_>>(), [2048, 5000, 8192]);
}

#[test]
fn names_count_before_numbers_and_what_is_neither_is_refused() {
    let bodies = [Some(b"zero".to_vec()), Some(b"one".to_vec()), Some(b"two".to_vec()), None];
    let mut all = details(&bodies);
    for (detail, name) in all.iter_mut().zip(["2", "same", "same", "d/gone"]) {
        *detail = Detail::new(name.as_bytes(), 0, detail.number).unwrap();
    }
    let afs = written(&bodies, Some(&all));
    let laid = |names: &[&str], case| {
        let over = folder(&names.iter().map(|name| (*name, &b"new"[..])).collect::<Vec<_>>());
        let laid = patched(in_memory(&afs), &[over.path()], case).map_err(|error| error.to_string())?;
        let new = laid.members.all().iter().filter(|member| !member.is_kept());
        Ok::<_, String>(
            new.map(|member| String::from_utf8_lossy(&member.key).into_owned()).collect::<Vec<_>>(),
        )
    };
    let exact = |names: &[&str]| laid(names, CaseRule::Exact);
    assert_eq!(exact(&["2"]).unwrap(), ["2"], "it is the name of the first");
    assert_eq!(exact(&["02_x"]).unwrap(), ["same"]);
    assert_eq!(exact(&["d/gone", "00001.x"]).unwrap(), ["same", "d/gone"]);
    assert_eq!(exact(&["4_new", "5_newer"]).unwrap(), ["4_new", "5_newer"]);
    assert_eq!(laid(&["D/Gone"], CaseRule::Ignored).unwrap(), ["d/gone"]);
    let cases: [(&[&str], &str); 11] = [
        (&["same"], "several members"),
        (&["other"], "no member has this name"),
        (&["D/gone"], "no member has this name"),
        (&["d/1_x"], "no member has this name"),
        (&["1x"], "no member has this name"),
        (&["5_x"], "next number would be 4"),
        (&["99999999999"], "no member has this name"),
        (&["2", "0_x"], "the same member"),
        (&["3.del"], "no member 3 to delete"),
        (&["other.del"], "no member other to delete"),
        (&["4.del"], "no member 4 to delete"),
    ];
    for (names, what) in cases {
        let said = exact(names).unwrap_err();
        assert!(said.contains(what) && names.iter().any(|name| said.starts_with(name)), "{names:?}: {said}");
    }
    // Later folders.
    let [one, two, three] = [&["4_a", "1_a"][..], &["4.del", "1_b"], &["4_c", "1.del"]]
        .map(|names| folder(&names.iter().map(|name| (*name, name.as_bytes())).collect::<Vec<_>>()));
    let keys = |paths: &[&std::path::Path]| {
        let laid = patched(in_memory(&afs), paths, CaseRule::Exact).unwrap();
        let lens = laid.members.all().iter().map(|member| member.len).collect::<Vec<_>>();
        (laid.members.all().len(), lens)
    };
    assert_eq!(keys(&[one.path()]), (4, vec![4, 3, 3, 3]));
    assert_eq!(keys(&[one.path(), two.path()]), (3, vec![4, 3, 3]));
    assert_eq!(keys(&[one.path(), two.path(), three.path()]), (3, vec![4, 3, 3]));
}

#[test]
fn what_would_be_beyond_4_gib_or_overwrite_what_is_not_known_is_refused() {
    let bodies = [Some(b"zero".to_vec()), Some(b"one".to_vec())];
    let afs = written(&bodies, Some(&details(&bodies)));
    let over = folder(&[]);
    fs::File::create(over.path().join("0")).unwrap().set_len(u64::from(u32::MAX) - 2048).unwrap();
    assert!(refusal(&afs, &[over.path()]).contains("4 GiB"));
    fs::File::create(over.path().join("0")).unwrap().set_len(u64::from(u32::MAX) - 4096).unwrap();
    assert!(refusal(&afs, &[over.path()]).contains("4 GiB"), "the details");
    let append = folder(&[("2", b"two")]);
    let mut file = afs.clone();
    file[32] = 1;
    assert!(refusal(&file, &[append.path()]).contains("behind the table"));
    let mut file = afs;
    let last = file.len() - 1;
    file[last] = 1;
    assert!(refusal(&file, &[append.path()]).contains("behind the details"));
}
