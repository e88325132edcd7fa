//! The pages of studies in a real browser.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use stook_study::ssd_profile::charts::CHARTS;
use stook_testing::privileged::LoopDevice;

use super::program::{ended, stook};

/// The page as headless Chromium parsed and laid it out, and its console output.
fn opened(page: &Path) -> (String, Vec<String>) {
    let profile = tempfile::tempdir().unwrap();
    let mut command = Command::new("chromium");
    // As root it has no sandbox, and without a screen no use for a graphics processor.
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    command.arg(format!("file://{}", page.display())).stdin(Stdio::null());
    let (code, document, stderr) = ended(&mut command);
    assert_eq!(code, 0, "{stderr}");
    let console = stderr.lines().filter(|line| line.contains(":CONSOLE:")).map(str::to_owned).collect();
    (document, console)
}

#[test]
fn the_console_of_the_browser_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    let policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'\">";
    fs::write(&page, format!("<!doctype html>{policy}<img src=\"https://example.org/x\"><p>here")).unwrap();
    let (document, console) = opened(&page);
    assert!(document.contains("<p>here</p>"), "{document}");
    assert!(console.len() == 1 && console[0].contains("Content Security Policy"), "{console:?}");
}

#[test]
fn the_page_of_a_measurement_is_whole_and_has_no_errors() {
    let device = LoopDevice::mount(96 << 20, 512).unwrap();
    let out = tempfile::tempdir().unwrap();
    let page = out.path().join("page.html");
    let sweep = ["--block-size", "4K,16K,64K", "--depth", "1,2,4", "--file-size", "32M", "--time", "100ms"];
    let mut command = stook(["bench", ".", "--rw", "randread", "--ramp", "0", "--html"]);
    let (code, _, stderr) = ended(command.arg(&page).args(sweep).current_dir(device.path()));
    assert_eq!(code, 0, "{stderr}");
    let (document, console) = opened(&page);
    assert_eq!(console, Vec::<String>::new());
    for heading in ["Every cell", "What depth changes", "Block and depth together", "The same with fio"] {
        assert!(document.contains(&format!("<h2>{heading}")), "{heading}");
    }
    // Bars, latency and bandwidth for each of three depths, throughput and Little's law for each of
    // three blocks, the map, percentiles, histogram and time line.
    assert_eq!(document.matches("<figure").count(), 17, "{document}");
}

#[test]
fn the_page_of_an_ssd_has_every_chart_and_no_errors() {
    let device = LoopDevice::mount(96 << 20, 512).unwrap();
    let out = tempfile::tempdir().unwrap();
    let args = ["study", "ssd-profile", "--time", "300ms", "--ramp", "0.1", "--size", "32M", "--out"];
    let mut command = stook(args);
    let (code, _, stderr) = ended(command.arg(out.path()).current_dir(device.path()));
    assert_eq!(code, 0, "{stderr}");
    let (document, console) = opened(&out.path().join("study.html"));
    assert_eq!(console, Vec::<String>::new());
    for chart in CHARTS {
        let (_, rest) = document.split_once(&format!("<figure id=\"{chart}\"")).unwrap();
        let (figure, _) = rest.split_once("</figure>").unwrap();
        assert!(figure.contains("<svg") && figure.contains("<title"), "{chart}");
        // Something is drawn in it: points of lines, columns, or fields.
        assert!(figure.contains("<circle") || figure.contains("<rect"), "{chart}: {figure}");
    }
    for line in ["SEQ1M Q8", "SEQ1M Q1", "RND4K Q32", "RND4K Q1"] {
        assert!(
            document.contains(&format!("<th scope=\"row\">{}</th>", line.replace(' ', "&nbsp;"))),
            "{line}"
        );
    }
    let left = fs::read_dir(device.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| name == "lost+found"));
}
