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
    rows: Vec<Row>,
    is_stacked: bool,
}

#[derive(Debug, Clone)]
struct Row {
    cells: Vec<String>,
    tone: Tone,
    /// Where its name leads.
    link: Option<String>,
}

/// From this many columns on a table takes more than the width of the text, where there is more.
const WIDE_FROM: usize = 7;

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
        self.rows.push(Row { cells: cells.into_iter().map(Into::into).collect(), tone, link: None });
        self
    }

    /// Makes the name of the last row a way to another page beside this one. What leads elsewhere
    /// becomes no link.
    #[must_use]
    pub fn link(mut self, path: impl Into<String>) -> Self {
        if let Some(row) = self.rows.last_mut() {
            row.link = Some(path.into());
        }
        self
    }

    /// On a narrow screen the cells of a row stand under one another, each with its header.
    #[must_use]
    pub fn stacked(mut self) -> Self {
        self.is_stacked = true;
        self
    }

    /// The headers of the columns and the alignment of their cells.
    pub fn columns(&self) -> impl Iterator<Item = (&str, Align)> {
        self.columns.iter().map(|(header, align)| (header.as_str(), *align))
    }

    /// The cells of each row, to print them elsewhere than on a page.
    pub fn rows(&self) -> impl Iterator<Item = &[String]> {
        self.rows.iter().map(|row| row.cells.as_slice())
    }

    pub(super) fn render(&self, html: &mut String) {
        let wide = if self.columns.len() >= WIDE_FROM { " wide" } else { "" };
        let stacked = if self.is_stacked { " stacked" } else { "" };
        append(html, format_args!("<div class=\"scroll{wide}{stacked}\" tabindex=\"0\"><table>\n"));
        if !self.caption.is_empty() {
            append(html, format_args!("<caption>{}</caption>\n", prose(&self.caption)));
        }
        html.push_str("<thead><tr>");
        for (header, align) in &self.columns {
            append(html, format_args!("<th scope=\"col\"{}>{}</th>", class(*align), prose(header)));
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        self.rows.iter().for_each(|row| self.render_row(row, html));
        html.push_str("</tbody></table></div>\n");
    }

    fn render_row(&self, row: &Row, html: &mut String) {
        append(html, format_args!("<tr class=\"{}\">", row.tone.class()));
        for (index, (header, align)) in self.columns.iter().enumerate() {
            let cell = row.cells.get(index).map_or(String::new(), |cell| prose(cell));
            let (tag, scope) = if index == 0 { ("th", " scope=\"row\"") } else { ("td", "") };
            let cell = match row.link.as_deref().filter(|path| index == 0 && is_beside(path)) {
                Some(path) => format!("<a href=\"{}\">{cell}</a>", escape(path)),
                None => cell,
            };
            let name = match self.is_stacked && index > 0 {
                true => format!(" data-name=\"{}\"", escape(header)),
                false => String::new(),
            };
            append(html, format_args!("<{tag}{scope}{name}{}>{cell}</{tag}>", class(*align)));
        }
        html.push_str("</tr>\n");
    }
}

/// Whether a path leads to a page beside this one.
pub(super) fn is_beside(path: &str) -> bool {
    !path.contains([':', '\\']) && !path.starts_with('/')
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

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(table: &Table) -> String {
        let mut html = String::new();
        table.render(&mut html);
        html
    }

    #[test]
    fn the_name_of_a_row_leads_to_a_page_beside_and_nowhere_else() {
        let with = |path: &str| Table::new("").column("A", Align::Left).row(["one"], Tone::Plain).link(path);
        assert!(rendered(&with("a/b.html")).contains("<a href=\"a/b.html\">one</a></th>"));
        for elsewhere in ["https://example.org", "//example.org", "javascript:alert(1)"] {
            assert!(!rendered(&with(elsewhere)).contains("href"), "{elsewhere}");
        }
    }

    /// Before: such a table was cut off at the width of the text.
    #[test]
    fn a_table_of_many_columns_is_wide_and_a_stacked_one_has_its_headers_in_its_cells() {
        let table = |columns: usize| {
            let names = (0..columns).map(|number| format!("<{number}>"));
            let table = names.fold(Table::new(""), |table, name| table.column(name, Align::Right));
            table.row(["a", "b"], Tone::Plain)
        };
        assert!(
            !rendered(&table(6)).contains("wide") && rendered(&table(7)).contains("class=\"scroll wide\"")
        );
        let stacked = rendered(&table(2).stacked());
        assert!(stacked.contains("class=\"scroll stacked\""), "{stacked}");
        assert!(stacked.contains("<td data-name=\"&lt;1&gt;\" class=\"number\">b</td>"), "{stacked}");
    }
}
