//! Cargo on a mounted source tree.

use super::Place;

/// The first run compiles what is on the mount, the second, on another mount of it, finds all of
/// it as it was: paths and times are the same.
#[test]
fn cargo_checks_and_runs_a_workspace_on_a_mount() {
    let place = Place::new();
    place.script(
        r#"
        mkdir -p ws/app/src/deep/er ws/part/src/bits; cd ws
        printf '[workspace]\nmembers = ["app", "part"]\nresolver = "2"\n' > Cargo.toml
        manifest() { printf '[package]\nname = "%s"\nversion = "0.1.0"\nedition = "2021"\n' $1; }
        manifest part > part/Cargo.toml; manifest app > app/Cargo.toml
        printf '[dependencies]\npart = { path = "../part" }\n' >> app/Cargo.toml
        for n in {1..40}; do
            echo "pub mod bit_$n;" >> part/src/bits/mod.rs
            echo "pub const BIT: u32 = $n;" > part/src/bits/bit_$n.rs
            echo "    sum += part::bits::bit_$n::BIT;" >> sums
        done
        echo 'pub mod bits;' > part/src/lib.rs; echo 'pub mod er;' > app/src/deep/mod.rs
        echo 'pub const TEXT: &str = include_str!("text");' > app/src/deep/er/mod.rs
        printf 'sum' > app/src/deep/er/text
        { echo 'mod deep;'; echo 'fn main() {'; echo '    let mut sum = 0;'; cat sums
          echo '    println!("{} {sum}", deep::er::TEXT);'; echo '}'; } > app/src/main.rs
        rm sums; cargo generate-lockfile --offline -q; cd ..; $STOOK pack ws p.stook -q"#,
    );
    let cargo = |subcommand: &str| {
        place.script(&format!(
            "unset MAKEFLAGS MFLAGS MAKELEVEL
             cargo {subcommand} --offline --locked --manifest-path mnt/Cargo.toml --target-dir target 2> said
             grep -c -e Checking -e Compiling said || true"
        ))
    };
    place.mount(&["p.stook"]);
    assert_eq!(cargo("check"), "2\n", "both crates are checked");
    assert_eq!(cargo("run"), "sum 820\n2\n");
    assert_eq!(cargo("check"), "0\n");
    place.unmount();
    place.mount(&["p.stook"]);
    assert_eq!(cargo("check"), "0\n", "all is as it was");
    assert_eq!(cargo("run"), "sum 820\n0\n");
    let status = place.status();
    assert_eq!(status.log_lines, 0, "{status:?}");
    place.unmount();
}
