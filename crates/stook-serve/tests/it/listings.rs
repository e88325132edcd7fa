//! Pages of directories.

use std::fs;

use super::Served;

#[test]
fn a_large_directory_is_listed_whole_and_a_small_one_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let large = directory.path().join("large");
    fs::create_dir(&large).unwrap();
    for number in 0..5000 {
        fs::write(large.join(format!("file-{number:04}")), "").unwrap();
    }
    for name in ["b", "a", "C"] {
        fs::write(directory.path().join(name), "12345").unwrap();
    }
    let served = Served::new(directory.path());
    let page = served.get("/large/");
    assert!(page.is_whole && page.header("transfer-encoding") == Some("chunked"));
    let mut names: Vec<&str> =
        page.text().split("<a href=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    names.retain(|name| name.starts_with("file-"));
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 5000);
    assert!(page.text().contains("<a href=\"../\">") && page.text().trim_end().ends_with("</html>"));

    let page = served.get("/");
    let at = |name: &str| page.text().find(&format!("<a href=\"{name}\">")).unwrap();
    assert!(at("C") < at("a") && at("a") < at("b") && at("b") < at("large/"));
    assert!(page.text().contains("5 B") && !page.text().contains("<a href=\"../\">"));
    // What follows links fetches each file once, and no archives: these are buttons.
    let links: Vec<&str> =
        page.text().split("href=\"").skip(1).filter_map(|of| of.split('"').next()).collect();
    assert_eq!(links, ["C", "a", "b", "large/"]);
    for form in ["tar", "zip"] {
        let button = format!("<button name=\"as\" value=\"{form}\">");
        assert!(page.text().contains(&button) && served.get(&format!("/?as={form}")).status == 200);
    }
    assert!(page.text().contains("<form method=\"get\">") && !page.text().contains("action="));
    assert!(page.text().contains("initial-scale=1"));
    let head = served.ask("HEAD", "/", &[]);
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-type"), Some("text/html; charset=utf-8"));
}

#[test]
fn an_archive_is_listed_as_a_directory_is() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir_all(directory.path().join("tree/sub")).unwrap();
    fs::write(directory.path().join("tree/sub/x.txt"), "text").unwrap();
    let served = Served::new(&directory.path().join("tree"));
    fs::write(directory.path().join("t.tar"), served.get("/?as=tar").body).unwrap();
    let served = Served::new(&directory.path().join("t.tar//"));
    assert!(served.get("/").text().contains("<a href=\"sub/\">sub/</a>"));
    assert!(served.get("/sub/").text().contains("<a href=\"x.txt\">x.txt</a>"));
    let file = served.get("/sub/x.txt");
    assert_eq!((file.text(), file.header("content-type")), ("text", Some("text/plain; charset=utf-8")));
}
