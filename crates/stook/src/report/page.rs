//! The one style of page that every study and report is shown in.
//!
//! A page is one HTML file that needs nothing else: style, drawings and data are embedded, there is
//! no script, and a content security policy forbids loading anything. It follows the reader's
//! choice of light or dark, fits a phone, and prints.

use serde::Serialize;

use super::chart::{Bars, Columns, HeatMap, Lines};
use super::html::{append, escape, json_for_script, prose};
use super::table::{Table, is_beside, render_facts};

const STYLE: &str = include_str!("page.css");
/// Nothing is loaded and nothing runs; the style inside the page is the only thing allowed.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// A number that is to be seen first.
#[derive(Debug, Clone)]
pub struct Figure {
    /// The number with its unit: `14.2×`, `1,530 MB/s`.
    pub value: String,
    /// What the number means.
    pub label: String,
}

/// A way to another page that was written beside this one.
#[derive(Debug, Clone)]
pub struct Link {
    /// Where it is from here: `ssd-profile/study.html`. What leads elsewhere becomes no link.
    pub path: String,
    /// What it is called.
    pub name: String,
    /// What is found there.
    pub detail: String,
}

/// A part of a section. All text is plain text, in which `` `backticks` `` mark code.
#[derive(Debug, Clone)]
pub enum Block {
    /// Paragraphs, with an empty line between two.
    Text(String),
    /// Something the reader must not overlook: a condition, a doubt about a number.
    Note(String),
    /// Commands or output, kept as they are.
    Code(String),
    /// A few numbers in large type.
    Figures(Vec<Figure>),
    /// Names and their values.
    Facts(Vec<(String, String)>),
    /// Pages beside this one.
    Links(Vec<Link>),
    /// A table.
    Table(Table),
    /// A bar chart.
    Bars(Bars),
    /// A line chart.
    Lines(Lines),
    /// A chart of columns.
    Columns(Columns),
    /// A heat map.
    Heat(HeatMap),
    /// What few look at: it is unfolded on request, and not printed.
    Folded {
        /// What it is.
        summary: String,
        /// Shown when it is unfolded; no charts.
        blocks: Vec<Block>,
    },
}

/// A page being written.
///
/// ```
/// use stook::report::page::{Block, Page};
/// use stook::report::chart::{Bar, Bars};
///
/// let bars = Bars::new("Cold load", "MB/s", vec![Bar::new("files", 116.0), Bar::new("pack", 1530.0)]);
/// let html = Page::new("Many small files")
///     .lead("Locating and opening files takes the time, not reading them.")
///     .section("Result", vec![Block::Bars(bars)])
///     .data(&[116, 1530])
///     .unwrap()
///     .render();
/// assert!(html.starts_with("<!doctype html>"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Page {
    title: String,
    lead: Vec<String>,
    sections: Vec<(String, Vec<Block>)>,
    appendix: Vec<(String, Vec<Block>)>,
    footer: String,
    data: Option<String>,
}

impl Page {
    /// An empty page.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// Adds a paragraph under the title: the answer, before any detail.
    #[must_use]
    pub fn lead(mut self, text: impl Into<String>) -> Self {
        self.lead.push(text.into());
        self
    }

    /// Adds a section. An empty heading is left out.
    #[must_use]
    pub fn section(mut self, heading: impl Into<String>, blocks: Vec<Block>) -> Self {
        self.sections.push((heading.into(), blocks));
        self
    }

    /// Adds a section that comes after all others, also those that are added later.
    #[must_use]
    pub fn appendix(mut self, heading: impl Into<String>, blocks: Vec<Block>) -> Self {
        self.appendix.push((heading.into(), blocks));
        self
    }

    /// The small print at the end: version, date, command.
    #[must_use]
    pub fn footer(mut self, text: impl Into<String>) -> Self {
        self.footer = text.into();
        self
    }

    /// Embeds the data the page was made from, as the element with the id `data`.
    ///
    /// # Errors
    /// Returns an error if `data` cannot be written as JSON.
    pub fn data(mut self, data: &impl Serialize) -> Result<Self, serde_json::Error> {
        self.data = Some(serde_json::to_string(data)?);
        Ok(self)
    }

    /// All figures in large type, in their order.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> {
        let blocks = self.sections.iter().chain(&self.appendix).flat_map(|(_, blocks)| blocks);
        blocks
            .filter_map(|block| if let Block::Figures(figures) = block { Some(figures) } else { None })
            .flatten()
    }

    /// The page as HTML in UTF-8.
    pub fn render(&self) -> String {
        let title = escape(&self.title);
        let mut html =
            String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        append(
            &mut html,
            format_args!("<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n"),
        );
        html.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        html.push_str("<meta name=\"color-scheme\" content=\"light dark\">\n");
        append(
            &mut html,
            format_args!("<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"),
        );
        append(&mut html, format_args!("<header>\n<h1>{title}</h1>\n"));
        for text in &self.lead {
            append(&mut html, format_args!("<p class=\"lead\">{}</p>\n", prose(text)));
        }
        html.push_str("</header>\n");
        let mut charts = 0;
        for (heading, blocks) in self.sections.iter().chain(&self.appendix) {
            html.push_str("<section>\n");
            if !heading.is_empty() {
                append(&mut html, format_args!("<h2>{}</h2>\n", prose(heading)));
            }
            for block in blocks {
                block.render(charts, &mut html);
                charts += 1;
            }
            html.push_str("</section>\n");
        }
        if !self.footer.is_empty() {
            append(&mut html, format_args!("<footer>{}</footer>\n", prose(&self.footer)));
        }
        html.push_str("</main>\n");
        if let Some(data) = &self.data {
            let data = json_for_script(data);
            append(
                &mut html,
                format_args!("<script type=\"application/json\" id=\"data\">{data}</script>\n"),
            );
        }
        html.push_str("</body>\n</html>\n");
        html
    }
}

impl Block {
    /// `id` is different for every block of a page.
    fn render(&self, id: usize, html: &mut String) {
        match self {
            Self::Text(text) => {
                for paragraph in text.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
                    append(html, format_args!("<p>{}</p>\n", prose(paragraph.trim())));
                }
            }
            Self::Note(text) => {
                append(html, format_args!("<p class=\"note\" role=\"note\">{}</p>\n", prose(text)))
            }
            Self::Code(text) => {
                append(html, format_args!("<pre tabindex=\"0\"><code>{}</code></pre>\n", escape(text)));
            }
            Self::Figures(figures) => render_figures(figures, html),
            Self::Facts(facts) => render_facts(facts, html),
            Self::Links(links) => render_links(links, html),
            Self::Table(table) => table.render(html),
            Self::Bars(bars) => bars.render(html),
            Self::Lines(lines) => lines.render(id, html),
            Self::Columns(columns) => columns.render(id, html),
            Self::Heat(map) => map.render(id, html),
            Self::Folded { summary, blocks } => {
                append(
                    html,
                    format_args!("<details class=\"folded\"><summary>{}</summary>\n", prose(summary)),
                );
                blocks.iter().for_each(|block| block.render(id, html));
                html.push_str("</details>\n");
            }
        }
    }
}

fn render_figures(figures: &[Figure], html: &mut String) {
    html.push_str("<dl class=\"figures\">\n");
    for figure in figures {
        let (label, value) = (prose(&figure.label), escape(&figure.value));
        append(html, format_args!("<div><dt>{label}</dt><dd>{value}</dd></div>\n"));
    }
    html.push_str("</dl>\n");
}

fn render_links(links: &[Link], html: &mut String) {
    html.push_str("<ul class=\"links\">\n");
    for link in links {
        let (name, detail) = (escape(&link.name), prose(&link.detail));
        let name = match is_beside(&link.path) {
            true => format!("<a href=\"{}\">{name}</a>", escape(&link.path)),
            false => name,
        };
        append(html, format_args!("<li>{name}<br>{detail}</li>\n"));
    }
    html.push_str("</ul>\n");
}

#[cfg(test)]
mod tests {
    use super::super::chart::{Axis, Bar, Column, HeatField, Marker, Point, Series};
    use super::super::table::{Align, Tone};
    use super::*;

    const HOSTILE: &str = "\"><script>alert(1)</script><img src=https://example.org/x onerror='x'>";

    /// A page with hostile text in every place that takes text.
    fn hostile_page() -> String {
        let text = || HOSTILE.to_owned();
        let points = vec![Point::new(1.0, 2.0).label(text()), Point::new(2.0, 3.0)];
        let series = vec![Series::new(text(), points)];
        let chart = || Lines::new(text(), Axis::linear(text()), Axis::logarithmic(text()), series.clone());
        let bars = Bars::new(text(), text(), vec![Bar::new(text(), f64::INFINITY).detail(text())]);
        let column = Column { from: 1.0, to: 2.0, value: 3.0 };
        let columns = Columns::new(text(), Axis::linear(text()), Axis::linear(text()), vec![column]);
        let fields = vec![HeatField::new(1.0).detail(text()).doubt(text()), HeatField::empty(text())];
        let names = || (text(), vec![text(), text()]);
        let heat = HeatMap::new(text(), text(), names(), names(), vec![fields]);
        let table = Table::new(text()).column(text(), Align::Right).row([text()], Tone::Muted);
        let blocks = vec![
            Block::Text(text()),
            Block::Note(text()),
            Block::Code(text()),
            Block::Figures(vec![Figure { value: text(), label: text() }]),
            Block::Facts(vec![(text(), text())]),
            Block::Table(table),
            Block::Bars(bars.reference(1.0, text())),
            Block::Lines(chart()),
            Block::Lines(chart().id(text()).marker(Marker::x(1.5, text())).marker(Marker::y(2.5, text()))),
            Block::Columns(columns.marker(Marker::x(1.5, text()))),
            Block::Heat(heat),
            Block::Folded { summary: text(), blocks: vec![Block::Code(text())] },
        ];
        let page = Page::new(text()).lead(text()).section(text(), blocks).footer(text());
        page.data(&[HOSTILE]).unwrap().render()
    }

    #[test]
    fn no_text_becomes_markup_and_nothing_is_loaded() {
        let html = hostile_page();
        assert_eq!(html.matches("<script").count(), 1, "only the data is a script element");
        assert_eq!(html.matches("</script>").count(), 1);
        assert_eq!(html.matches("<img").count(), 0);
        for loading in ["src=\"", "href", "@import", "url("] {
            assert!(!html.contains(loading), "{loading}");
        }
        assert!(html.contains("default-src 'none'"));
    }

    #[test]
    fn an_appendix_comes_after_what_is_added_later() {
        let page = Page::new("").appendix("Last", Vec::new()).section("First", Vec::new());
        let html = page.render();
        assert!(html.find("<h2>First").unwrap() < html.find("<h2>Last").unwrap(), "{html}");
    }

    #[test]
    fn only_what_lies_beside_a_page_becomes_a_link() {
        let link =
            |path: &str| Link { path: path.to_owned(), name: HOSTILE.to_owned(), detail: HOSTILE.to_owned() };
        let links = ["a/study.html", "https://example.org", "javascript:alert(1)", "//example.org", "a\">"];
        let html = Page::new("").section("", vec![Block::Links(links.map(link).into())]).render();
        assert_eq!(html.matches("<a ").count(), 2);
        assert!(
            html.contains("<a href=\"a/study.html\">") && html.contains("<a href=\"a&quot;&gt;\">"),
            "{html}"
        );
        assert_eq!((html.matches("<li>").count(), html.matches("<img").count()), (5, 0));
    }

    #[test]
    fn embedded_data_is_the_data_that_was_given() {
        let html = hostile_page();
        let from = html.split_once("id=\"data\">").unwrap().1;
        let data: Vec<String> = serde_json::from_str(from.split_once("</script>").unwrap().0).unwrap();
        assert_eq!(data, [HOSTILE]);
    }

    #[test]
    fn identifiers_are_unique_and_every_element_is_closed() {
        let html = hostile_page();
        let mut ids: Vec<&str> =
            html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!((ids.len(), all), (10, 10), "{ids:?}");
        for tag in [
            "svg", "g", "figure", "section", "table", "tr", "dl", "li", "span", "text", "div", "p", "details",
        ] {
            let opened =
                html.matches(&format!("<{tag} ")).count() + html.matches(&format!("<{tag}>")).count();
            assert_eq!(opened, html.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }
}
