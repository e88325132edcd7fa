//! [`Lines`]: values against a measure, one line per series.

use super::super::html::{append, escape};
use super::super::table::{Align, Table, Tone};
use super::frame::{CLOSE, Frame, Marker, below, frame_methods, numbers};
use super::scale::{Axis, Scale};

/// How many colours the style has for series.
const COLOURS: usize = 6;
/// The least distance between the names of two lines, in per cent of the height of the chart.
const NAME_DISTANCE: f64 = 6.5;

/// How many characters of a name there is room for beside the chart.
const NAME_CHARS: usize = 24;

/// A place on a chart.
#[derive(Debug, Clone, Default)]
pub struct Point {
    x: f64,
    y: f64,
    label: String,
    is_gap: bool,
}

impl Point {
    /// The point at `x`, `y`.
    pub fn new(x: f64, y: f64) -> Self {
        Self { x, y, label: String::new(), is_gap: false }
    }

    /// No point: the line is broken here.
    pub fn gap() -> Self {
        Self { is_gap: true, ..Self::new(0.0, 0.0) }
    }

    /// A few characters beside the point. Shown where they have room: on a highlighted line, or on
    /// the only one.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }
}

/// A named line through points, in the order given.
#[derive(Debug, Clone)]
pub struct Series {
    name: String,
    points: Vec<Point>,
    tone: Tone,
    is_scatter: bool,
}

impl Series {
    /// A plain line.
    pub fn new(name: impl Into<String>, points: Vec<Point>) -> Self {
        Self { name: name.into(), points, tone: Tone::Plain, is_scatter: false }
    }

    /// How much it is to be noticed; a muted line is dashed and grey.
    #[must_use]
    pub fn tone(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }

    /// The same under another name.
    #[must_use]
    pub fn renamed(mut self, name: impl FnOnce(&str) -> String) -> Self {
        self.name = name(&self.name);
        self
    }

    /// What is no gap.
    fn points(&self) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(|point| !point.is_gap)
    }

    /// Its points are not joined by a line.
    #[must_use]
    pub fn scatter(mut self) -> Self {
        self.is_scatter = true;
        self
    }
}

/// A line chart, with its numbers as a table that can be unfolded.
#[derive(Debug, Clone)]
pub struct Lines {
    frame: Frame,
    series: Vec<Series>,
}

impl Lines {
    /// A chart. The caption describes it. Points that do not fit on an axis are left out of the
    /// drawing, with a note, and stay in the table.
    pub fn new(caption: impl Into<String>, x: Axis, y: Axis, series: Vec<Series>) -> Self {
        Self { frame: Frame::new(caption, x, y), series }
    }

    frame_methods!();

    fn shown<'a>(&self, series: &'a Series) -> impl Iterator<Item = &'a Point> {
        series.points().filter(|point| self.can_show(point))
    }

    fn can_show(&self, point: &Point) -> bool {
        let Frame { x, y, .. } = &self.frame;
        x.can_show(point.x) && y.can_show(point.y)
    }

    /// `number` is different for every chart of a page.
    pub(in super::super) fn render(&self, number: usize, html: &mut String) {
        let shown = || self.series.iter().flat_map(|series| self.shown(series));
        let (x, y) = self.frame.scales(shown().map(|point| point.x), shown().map(|point| point.y));
        let left_out =
            self.series.iter().map(|series| series.points().count()).sum::<usize>() - shown().count();
        let names = self.series.iter().map(|series| series.name.chars().count().min(NAME_CHARS));
        let right = names.max().unwrap_or(0) + 1;
        self.frame.open(number, &self.description(), (&x, &y), right, left_out, html);
        // What is to be noticed is drawn last, over the rest.
        for tone in [Tone::Muted, Tone::Plain, Tone::Highlight] {
            for (index, series) in self.series.iter().enumerate().filter(|(_, series)| series.tone == tone) {
                self.render_series(index, series, &x, &y, html);
            }
        }
        self.render_names(&x, &y, html);
        below(&self.frame.x.label, html);
        self.render_legend(html);
        self.render_numbers(html);
        html.push_str(CLOSE);
    }

    fn description(&self) -> String {
        let names: Vec<&str> = self.series.iter().map(|series| series.name.as_str()).collect();
        let (y, x) = (&self.frame.y.label, &self.frame.x.label);
        format!("{y} against {x}, for: {}. The numbers follow as a table.", names.join(", "))
    }

    fn render_series(&self, index: usize, series: &Series, x: &Scale, y: &Scale, html: &mut String) {
        let place = |point: &Point| (x.percent(point.x), 100.0 - y.percent(point.y));
        append(html, format_args!("<g class=\"{}\">", self.class(index)));
        if !series.is_scatter {
            // The inner drawing is stretched to the chart; the width of the stroke is not.
            html.push_str("<svg viewBox=\"0 0 100 100\" preserveAspectRatio=\"none\">");
            for part in series.points.split(|point| point.is_gap).filter(|part| !part.is_empty()) {
                html.push_str("<polyline points=\"");
                for point in part.iter().filter(|point| self.can_show(point)) {
                    let (x, y) = place(point);
                    append(html, format_args!("{x:.3},{y:.3} "));
                }
                html.push_str("\"/>");
            }
            html.push_str("</svg>");
        }
        let labels = series.tone == Tone::Highlight || self.series.len() == 1;
        for point in self.shown(series) {
            let (left, top) = place(point);
            let (name, label) = (escape(&series.name), escape(&point.label));
            let (x, y) = (self.frame.x.format.text(point.x), self.frame.y.format.text(point.y));
            append(html, format_args!("<circle cx=\"{left:.2}%\" cy=\"{top:.2}%\" r=\"3.5\">"));
            append(html, format_args!("<title>{name}: {} at {}</title></circle>", escape(&y), escape(&x)));
            if labels && !point.label.is_empty() {
                let position = format!("x=\"{left:.2}%\" y=\"{top:.2}%\" dy=\"-9\"");
                append(html, format_args!("<text class=\"point\" {position}>{label}</text>"));
            }
        }
        html.push_str("</g>\n");
    }

    /// Writes the name of every line at the height of its end, moved apart where they would
    /// overlap.
    fn render_names(&self, x: &Scale, y: &Scale, html: &mut String) {
        let ends = self.series.iter().enumerate().filter_map(|(index, series)| {
            let end = self.shown(series).max_by(|a, b| a.x.total_cmp(&b.x))?;
            Some((100.0 - y.percent(end.y), x.percent(end.x), index, &series.name))
        });
        let mut ends: Vec<_> = ends.collect();
        let left = ends.iter().map(|end| end.1).fold(0.0, f64::max);
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut places: Vec<f64> = ends.iter().map(|end| end.0).collect();
        move_apart(&mut places);
        for ((_, _, index, name), top) in ends.iter().zip(places) {
            let (class, name) = (self.class(*index), escape(&shortened(name)));
            let position = format!("x=\"{left:.2}%\" y=\"{top:.2}%\" dx=\"12\" dy=\"4\"");
            append(html, format_args!("<text class=\"name {class}\" {position}>{name}</text>"));
        }
    }

    fn render_legend(&self, html: &mut String) {
        html.push_str("<ul class=\"legend\" aria-hidden=\"true\">");
        for (index, series) in self.series.iter().enumerate() {
            let (class, name) = (self.class(index), escape(&series.name));
            let sign = match series.is_scatter {
                true => "<circle cx=\"50%\" cy=\"50%\" r=\"3.5\"/>",
                false => "<line x2=\"100%\" y1=\"50%\" y2=\"50%\"/>",
            };
            append(html, format_args!("<li class=\"{class}\"><svg>{sign}</svg>{name}</li>"));
        }
        html.push_str("</ul>\n");
    }

    fn render_numbers(&self, html: &mut String) {
        let mut table = Table::new("").column("Series", Align::Left);
        table = table.column(&self.frame.x.label, Align::Right).column(&self.frame.y.label, Align::Right);
        for series in &self.series {
            for point in series.points() {
                let (x, y) = (self.frame.x.format.text(point.x), self.frame.y.format.text(point.y));
                table = table.row([series.name.clone(), x, y], series.tone);
            }
        }
        numbers(&table, html);
    }

    /// The class of a series: highlighted ones have the first colour, muted ones are grey.
    fn class(&self, index: usize) -> String {
        let scatter = self.series.get(index).is_some_and(|series| series.is_scatter);
        let class = self.colour(index);
        if scatter { format!("{class} scatter") } else { class }
    }

    fn colour(&self, index: usize) -> String {
        match self.series.get(index).map(|series| series.tone) {
            Some(Tone::Highlight) => "series c0".to_owned(),
            Some(Tone::Muted) => "series muted".to_owned(),
            _ => {
                let plain = |series: &&Series| series.tone == Tone::Plain;
                let before = self.series.iter().take(index).filter(plain).count();
                format!("series c{}", 1 + before % (COLOURS - 1))
            }
        }
    }
}

/// `name` as far as there is room for it beside a chart; legend and table have all of it.
fn shortened(name: &str) -> String {
    match name.char_indices().nth(NAME_CHARS) {
        Some(_) => name.chars().take(NAME_CHARS - 1).chain(['…']).collect(),
        None => name.to_owned(),
    }
}

/// Moves ascending places down until they are apart, then up again where the last left the chart.
fn move_apart(places: &mut [f64]) {
    let mut least = f64::NEG_INFINITY;
    for place in places.iter_mut() {
        *place = place.max(least);
        least = *place + NAME_DISTANCE;
    }
    let mut most = 100.0;
    for place in places.iter_mut().rev() {
        *place = place.min(most);
        most = *place - NAME_DISTANCE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_lines_that_end_together_are_moved_apart() {
        let mut places = vec![10.0, 10.5, 11.0, 99.0, 99.5];
        move_apart(&mut places);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= NAME_DISTANCE - 1e-9), "{places:?}");
        assert!(places.iter().all(|place| *place <= 100.0), "{places:?}");
    }

    #[test]
    fn scattered_points_are_not_joined() {
        let points = || vec![Point::new(1.0, 2.0), Point::new(2.0, 3.0)];
        let series = vec![Series::new("a", points()), Series::new("b", points()).scatter()];
        let mut html = String::new();
        Lines::new("A", Axis::linear("x"), Axis::linear("y"), series).render(0, &mut html);
        // One of the circles is the sign of the legend.
        assert_eq!((html.matches("<polyline").count(), html.matches("<circle").count()), (1, 5));
        assert_eq!(html.matches("<g class=\"series c2 scatter\">").count(), 1);
    }

    /// Before: a line ran straight over what failed its checks.
    #[test]
    fn a_gap_breaks_the_line_and_is_no_point() {
        let points = vec![Point::new(1.0, 1.0), Point::new(2.0, 2.0), Point::gap(), Point::new(4.0, 4.0)];
        let mut html = String::new();
        let series = vec![Series::new("a", points)];
        Lines::new("A", Axis::logarithmic("x"), Axis::logarithmic("y"), series).render(0, &mut html);
        assert_eq!((html.matches("<polyline").count(), html.matches("<circle").count()), (2, 3));
        assert_eq!(html.matches("<th scope=\"row\">a</th>").count(), 3);
        assert!(!html.contains("without a place"), "{html}");
    }

    #[test]
    fn long_names_are_cut_at_a_character() {
        assert_eq!(shortened("µ"), "µ");
        let cut = shortened(&"µ".repeat(25));
        assert_eq!((cut.chars().count(), cut.ends_with("µ…")), (24, true));
        assert_eq!(shortened(&"µ".repeat(24)), "µ".repeat(24));
    }

    #[test]
    fn points_without_a_place_are_reported_and_stay_in_the_table() {
        let points = vec![Point::new(0.0, 1.0), Point::new(1.0, f64::NAN), Point::new(2.0, 3.0)];
        let series = Series::new("depth <1>", points);
        let mut html = String::new();
        let axes = (Axis::logarithmic("x"), Axis::linear("y"));
        Lines::new("A & B", axes.0, axes.1, vec![series]).render(0, &mut html);
        assert!(html.contains("Points without a place on these axes: 2."));
        assert_eq!(html.matches("<circle").count(), 1);
        assert_eq!(html.matches("<th scope=\"row\">depth &lt;1&gt;</th>").count(), 3);
        assert!(!html.contains("NaN") && !html.contains("inf"), "{html}");
    }
}
