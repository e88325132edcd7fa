//! [`Columns`]: how often values fall into ranges.

use super::super::html::append;
use super::super::html::escape;
use super::super::table::{Align, Table, Tone};
use super::frame::{CLOSE, Frame, Marker, below, frame_methods, numbers};
use super::scale::Axis;

/// One range and its value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Column {
    /// Where the range begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    /// How high the column is.
    pub value: f64,
}

/// A chart of columns, as wide as their ranges, with its numbers as a table that can be unfolded.
#[derive(Debug, Clone)]
pub struct Columns {
    frame: Frame,
    columns: Vec<Column>,
}

impl Columns {
    /// A chart. The caption describes it. Columns that do not fit on an axis are left out of the
    /// drawing, with a note, and stay in the table.
    pub fn new(caption: impl Into<String>, x: Axis, y: Axis, columns: Vec<Column>) -> Self {
        Self { frame: Frame::new(caption, x, y), columns }
    }

    frame_methods!();

    fn shown(&self) -> impl Iterator<Item = &Column> {
        let Frame { x, y, .. } = &self.frame;
        self.columns
            .iter()
            .filter(|column| x.can_show(column.from) && x.can_show(column.to) && y.can_show(column.value))
    }

    /// `number` is different for every chart of a page.
    pub(in super::super) fn render(&self, number: usize, html: &mut String) {
        let edges = self.shown().flat_map(|column| [column.from, column.to]);
        let (x, y) = self.frame.scales(edges, self.shown().map(|column| column.value));
        let (across, up) = (&self.frame.x.label, &self.frame.y.label);
        let description = format!("{up} for ranges of {across}. The numbers follow as a table.");
        let left_out = self.columns.len() - self.shown().count();
        self.frame.open(number, &description, (&x, &y), 0, left_out, html);
        html.push_str("<g class=\"columns\">");
        for column in self.shown() {
            let (left, right) = (x.percent(column.from), x.percent(column.to));
            let height = y.percent(column.value);
            let (top, width) = (100.0 - height, (right - left).max(0.0));
            let place =
                format!("x=\"{left:.3}%\" y=\"{top:.2}%\" width=\"{width:.3}%\" height=\"{height:.2}%\"");
            let [from, to, value] = self.texts(column).map(|text| escape(&text));
            append(html, format_args!("<rect {place}><title>{value}: {from} to {to}</title></rect>"));
        }
        html.push_str("</g>\n");
        below(&self.frame.x.label, html);
        self.render_numbers(html);
        html.push_str(CLOSE);
    }

    fn texts(&self, column: &Column) -> [String; 3] {
        let Frame { x, y, .. } = &self.frame;
        [x.format.text(column.from), x.format.text(column.to), y.format.text(column.value)]
    }

    fn render_numbers(&self, html: &mut String) {
        let (across, up) = (&self.frame.x.label, &self.frame.y.label);
        let mut table = Table::new("").column(format!("{across}, from"), Align::Left);
        table = table.column("to", Align::Right).column(up, Align::Right);
        for column in &self.columns {
            table = table.row(self.texts(column), Tone::Plain);
        }
        numbers(&table, html);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_ranges_and_as_high_as_their_values() {
        let columns = [(1.0, 10.0, 50.0), (10.0, 100.0, 100.0), (0.0, 1.0, 3.0)]
            .map(|(from, to, value)| Column { from, to, value });
        let mut html = String::new();
        let chart = Columns::new("A", Axis::logarithmic("x"), Axis::linear("y"), columns.to_vec());
        chart.id("a\"b").marker(Marker::x(10.0, "<half>")).render(7, &mut html);
        assert!(html.contains("<figure id=\"a&quot;b\""), "{html}");
        assert!(html.contains("x=\"0.000%\" y=\"50.00%\" width=\"50.000%\" height=\"50.00%\""), "{html}");
        assert!(html.contains("x=\"50.000%\" y=\"0.00%\" width=\"50.000%\" height=\"100.00%\""), "{html}");
        assert_eq!(html.matches("<rect").count(), 2);
        assert!(html.contains("Points without a place on these axes: 1."), "{html}");
        assert!(
            html.contains(">&lt;half&gt;</text>") && html.contains("x1=\"50.00%\" x2=\"50.00%\""),
            "{html}"
        );
        assert_eq!(html.matches("<th scope=\"row\">").count(), 3);
    }
}
