//! What every page of a study promises.

/// Checks that every chart is on the page once, that there are no others, and that nothing external
/// is loaded. Returns the data that the page embeds, as JSON.
///
/// # Panics
/// Panics if the page differs from that.
pub fn page_conformance<'a>(html: &'a str, charts: &[&str]) -> &'a str {
    for chart in charts {
        assert_eq!(html.matches(&format!("<figure id=\"{chart}\"")).count(), 1, "{chart}");
    }
    assert_eq!(html.matches("<figure").count(), charts.len());
    let data = r#"<script type="application/json" id="data">"#;
    let (before, data) = html.split_once(data).expect("a page embeds its data");
    let (data, after) = data.split_once("</script>").expect("the data ends");
    for shown in [before, after] {
        for loads in ["http:", "https:", "src=", "href", "<link", "<script", "@import", "url("] {
            assert!(!shown.contains(loads), "{loads}");
        }
        for nothing in ["NaN", "inf%", "null"] {
            assert!(!shown.contains(nothing), "{nothing}");
        }
    }
    data
}
