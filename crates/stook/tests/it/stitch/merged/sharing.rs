//! Many at once, as processes are: each lock belongs to an opening of a file.

use std::sync::Barrier;

use super::*;

#[test]
fn of_two_that_make_one_copy_one_wins_and_the_other_uses_it() {
    let place = Place::of(20);
    let expected = read_through(&place.tar().file).unwrap();
    let (outer, inner) = (place.cache(), place.cache());
    let mut first = None;
    let laid = place.tar();
    // The second begins and ends while the first is writing.
    let file = while_built(&outer, &laid, || first = Some(merged(&inner, &place.tar().file))).unwrap();
    let first = first.unwrap();
    assert!(file.is_merged() && first.is_merged());
    assert_eq!(file.copy().unwrap().path(), first.copy().unwrap().path());
    assert!(all_of(&file).unwrap() == expected && all_of(&first).unwrap() == expected);
    assert_eq!((outer.statistics().found, inner.statistics().built), (1, 1));
    assert_eq!((place.files(".record").len(), place.files(".merged").len()), (1, 1));
    assert_eq!((outer.take_notes(), inner.take_notes()), (vec![], vec![]));
}

#[test]
fn many_threads_make_find_and_remove_the_same_few() {
    let places: Vec<Place> = (0..3).map(|number| Place::of(12 + number)).collect();
    let expected: Vec<Vec<u8>> =
        places.iter().map(|place| read_through(&place.tar().file).unwrap()).collect();
    let directory = places[0].cache_path();
    // Room for two of the three.
    let budget_bytes = 2 * 64 * 1024;
    let (threads, start) = (6, Barrier::new(6));
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (places, expected, directory, start) = (&places, &expected, &directory, &start);
            scope.spawn(move || {
                start.wait();
                for round in 0..15 {
                    let which = (thread + round) % places.len();
                    let cache =
                        MergedCache::open(directory, MergedCacheOptions { budget_bytes, ..ALWAYS }).unwrap();
                    check(&cache, &places[which].tar(), &expected[which]);
                    if round % 5 == thread % 5 {
                        cache.purge().unwrap();
                    }
                    let damaged = cache.statistics().discarded;
                    assert_eq!(damaged, 0, "{:?}", cache.take_notes());
                }
            });
        }
    });
    assert_eq!(files(&directory, ".part"), Vec::<PathBuf>::new());
}
