//! A program of the Java platform, as the study of composite files had one: it reads the files of
//! a tree through `FileInputStream` and buffers of 64 KiB.

use std::fs;

use super::Place;
use crate::trees::noise;

/// Lists a tree, and prints how many files and bytes it read, and a digest of paths and contents.
const PROGRAM: &str = r#"
import java.io.FileInputStream;
import java.io.InputStream;
import java.nio.file.*;
import java.security.MessageDigest;
import java.util.*;
import java.util.stream.*;

public class ReadAll {
    public static void main(String[] arguments) throws Exception {
        Path root = Paths.get(arguments[0]);
        List<Path> files;
        try (Stream<Path> found = Files.walk(root)) {
            files = found.filter(Files::isRegularFile).sorted().collect(Collectors.toList());
        }
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        byte[] buffer = new byte[64 * 1024];
        long bytes = 0;
        for (Path file : files) {
            digest.update((root.relativize(file).toString() + "\n").getBytes("UTF-8"));
            try (InputStream in = new FileInputStream(file.toFile())) {
                for (int read; (read = in.read(buffer)) >= 0; bytes += read) {
                    digest.update(buffer, 0, read);
                }
            }
        }
        StringBuilder hex = new StringBuilder();
        for (byte one : digest.digest()) hex.append(String.format("%02x", one));
        System.out.println(files.size() + " " + bytes + " " + hex);
    }
}
"#;

/// All that the study had, only where whole sweeps are asked for.
fn files() -> usize {
    if std::env::var_os("STOOK_SWEEPS").is_some_and(|value| value == "whole") { 50_000 } else { 5_000 }
}

/// As in the study: 20,000 bytes each, two directories deep, by the digits of their numbers.
#[test]
fn a_java_program_reads_the_same_through_buffers_of_64_kib() {
    const LEN: usize = 20_000;
    let (place, files) = (Place::new(), files());
    fs::write(place.path("ReadAll.java"), PROGRAM).unwrap();
    let pool = noise(64, LEN + files);
    for file in 0..files {
        let digits = format!("{file:05}");
        let directory = place.path("tree").join(&digits[3..5]).join(&digits[1..3]);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(&digits[..1]), &pool[file..file + LEN]).unwrap();
    }
    place.script("javac ReadAll.java; $STOOK pack tree p.stook -q");
    let loose = place.script("java -cp . ReadAll tree");
    assert!(loose.starts_with(&format!("{files} {} ", files * LEN)), "{loose}");
    place.mount(&["p.stook"]);
    place.script("sync; echo 3 > /proc/sys/vm/drop_caches");
    for when in ["cold", "warm"] {
        assert_eq!(place.script("java -cp . ReadAll mnt"), loose, "{when}");
    }
    let status = place.status();
    assert!(status.pushed.files > 0 && status.log_lines == 0, "{status:?}");
    place.unmount();
}
