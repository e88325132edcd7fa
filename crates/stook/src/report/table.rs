//! [`Table`]: rows of text under headers.

use super::html::{append, escape, prose};

/// The alignment of a column's cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Align {
    /// Text.
    #[default]
    Left,
    /// Numbers.
    Right,
}

/// How much a row, bar or line is to be noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    /// Like the others.
    #[default]
    Plain,
    /// The row or column that the page is about.
    Highlight,
    /// Context: published figures, limits.
    Muted,
}

impl Tone {
    /// The class that the style knows it by.
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Highlight => "highlight",
            Self::Muted => "muted",
        }
    }
}

/// A table. A row with fewer cells than there are columns is filled up with empty ones; cells
/// beyond the last column are not shown.
#[derive(Debug, Clone, Default)]
pub struct Table {
    caption: String,
    columns: Vec<(String, Align)>,
    rows: Vec<(Vec<String>, Tone)>,
}

impl Table {
    /// A table without columns and rows; an empty caption is left out.
    pub fn new(caption: impl Into<String>) -> Self {
        Self { caption: caption.into(), ..Self::default() }
    }

    /// Adds a column to the right. The first one names the rows.
    #[must_use]
    pub fn column(mut self, header: impl Into<String>, align: Align) -> Self {
        self.columns.push((header.into(), align));
        self
    }

    /// Adds a row at the end.
    #[must_use]
    pub fn row<S: Into<String>>(mut self, cells: impl IntoIterator<Item = S>, tone: Tone) -> Self {
        self.rows.push((cells.into_iter().map(Into::into).collect(), tone));
        self
    }

    /// The headers of the columns and the alignment of their cells.
    pub fn columns(&self) -> impl Iterator<Item = (&str, Align)> {
        self.columns.iter().map(|(header, align)| (header.as_str(), *align))
    }

    /// The cells of each row, to print them elsewhere than on a page.
    pub fn rows(&self) -> impl Iterator<Item = &[String]> {
        self.rows.iter().map(|(cells, _)| cells.as_slice())
    }

    pub(super) fn render(&self, html: &mut String) {
        html.push_str("<div class=\"scroll\" tabindex=\"0\"><table>\n");
        if !self.caption.is_empty() {
            append(html, format_args!("<caption>{}</caption>\n", prose(&self.caption)));
        }
        html.push_str("<thead><tr>");
        for (header, align) in &self.columns {
            append(html, format_args!("<th scope=\"col\"{}>{}</th>", class(*align), prose(header)));
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        for (cells, tone) in &self.rows {
            append(html, format_args!("<tr class=\"{}\">", tone.class()));
            for (index, (_, align)) in self.columns.iter().enumerate() {
                let cell = cells.get(index).map_or(String::new(), |cell| prose(cell));
                let (tag, scope) = if index == 0 { ("th", " scope=\"row\"") } else { ("td", "") };
                append(html, format_args!("<{tag}{scope}{}>{cell}</{tag}>", class(*align)));
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody></table></div>\n");
    }
}

fn class(align: Align) -> &'static str {
    match align {
        Align::Left => "",
        Align::Right => " class=\"number\"",
    }
}

/// Names and values: an environment, the parameters of a run.
pub(super) fn render_facts(facts: &[(String, String)], html: &mut String) {
    html.push_str("<dl class=\"facts\">\n");
    for (name, value) in facts {
        append(html, format_args!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(name), prose(value)));
    }
    html.push_str("</dl>\n");
}
