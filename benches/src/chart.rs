//! Pictures of measurements.

use std::error::Error;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

/// A picture.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What it shows.
    title: String,
    /// What stands below it, and beside it.
    axes: [&'static str; 2],
    /// What is drawn.
    marks: Marks,
    /// Whether values grow by factors upwards.
    log_y: bool,
}

/// What a picture is made of.
#[derive(Clone, Debug)]
enum Marks {
    /// Lines through points, by name; along factors of x if `log_x`.
    Lines {
        /// The lines.
        lines: Vec<Line>,
        /// Whether x grows by factors.
        log_x: bool,
    },
    /// A group of bars side by side for each name.
    Bars {
        /// What the bars of a group are called.
        series: Vec<String>,
        /// The groups.
        groups: Vec<(String, Vec<f64>)>,
    },
}

/// What most pictures show upwards.
pub const PER_CPU: &str = "million events per CPU second";

/// Pixels of one picture.
const SIZE: (u32, u32) = (760, 400);
/// Colours that also those who do not see red and green can tell apart (Okabe and Ito's).
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
];

/// How much of the height above what is drawn is for the legend.
const LEGEND: f64 = 0.35;

/// Points by name.
pub type Line = (String, Vec<(f64, f64)>);

type Canvas<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn = Result<(), Box<dyn Error>>;

/// All of `charts`, below each other, as one SVG.
///
/// # Errors
/// If they cannot be drawn.
pub fn svg(charts: &[Chart]) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    {
        let size = (SIZE.0, SIZE.1 * charts.len().max(1) as u32);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE)?;
        for (area, chart) in root.split_evenly((charts.len().max(1), 1)).iter().zip(charts) {
            chart.draw(area)?;
        }
        root.present()?;
    }
    Ok(text)
}

/// Where `value` stands on an axis.
fn place(value: f64, log: bool) -> f64 {
    if log { value.max(f64::MIN_POSITIVE).log10() } else { value }
}

/// What stands at a place on an axis.
fn label(place: f64, log: bool) -> String {
    let value = if log { 10f64.powf(place) } else { place };
    match value.abs() {
        large if large >= 1e6 => format!("{:.3}M", value / 1e6).replace(".000", ""),
        large if large >= 1e4 => format!("{:.0}k", value / 1e3),
        small if small < 1.0 && small != 0.0 => format!("{value:.2}"),
        small if small < 10.0 && small.fract() != 0.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// From the least to the greatest and `room` of that above; from 0 unless by factors.
fn range(values: impl Iterator<Item = f64>, log: bool, room: f64) -> Range<f64> {
    let places = values.map(|value| place(value, log));
    let (least, most) =
        places.fold((f64::MAX, f64::MIN), |(least, most), it| (least.min(it), most.max(it)));
    if least > most {
        return 0.0..1.0;
    }
    let least = if log { least.floor() } else { 0.0 };
    least..(most + (most - least).max(0.1) * room)
}

/// What stands for a series in the legend.
fn swatch((x, y): (i32, i32), colour: RGBColor) -> Rectangle<(i32, i32)> {
    Rectangle::new([(x, y - 4), (x + 12, y + 4)], colour.filled())
}

fn legend(canvas: &mut Canvas<'_>) -> Drawn {
    canvas
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    Ok(())
}

impl Chart {
    /// Bars, a group for each name.
    pub fn bars(
        title: impl Into<String>,
        y: &'static str,
        series: [&str; 2],
        groups: Vec<(String, Vec<f64>)>,
    ) -> Self {
        let series = series.map(str::to_owned).to_vec();
        let marks = Marks::Bars { series, groups };
        Self { title: title.into(), axes: ["", y], marks, log_y: false }
    }

    /// Lines.
    pub fn lines(
        title: impl Into<String>,
        axes: [&'static str; 2],
        log_x: bool,
        lines: Vec<Line>,
    ) -> Self {
        Self { title: title.into(), axes, marks: Marks::Lines { lines, log_x }, log_y: false }
    }

    /// With values that grow by factors.
    pub fn by_factors(self) -> Self {
        Self { log_y: true, ..self }
    }

    fn canvas<'a>(
        &self,
        area: &DrawingArea<SVGBackend<'a>, Shift>,
        x: Range<f64>,
        y: Range<f64>,
    ) -> Result<Canvas<'a>, Box<dyn Error>> {
        let mut canvas = ChartBuilder::on(area);
        canvas.caption(&self.title, ("sans-serif", 20)).margin(12);
        canvas.x_label_area_size(44).y_label_area_size(64);
        Ok(canvas.build_cartesian_2d(x, y)?)
    }

    fn draw(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Drawn {
        match &self.marks {
            Marks::Lines { lines, log_x } => self.draw_lines(area, lines, *log_x),
            Marks::Bars { series, groups } => self.draw_bars(area, series, groups),
        }
    }

    fn draw_lines(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
        lines: &[Line],
        log_x: bool,
    ) -> Drawn {
        let points = || lines.iter().flat_map(|(_, points)| points);
        let x = range(points().map(|point| point.0), log_x, 0.02);
        let y = range(points().map(|point| point.1), self.log_y, LEGEND);
        let mut chart = self.canvas(area, x, y)?;
        chart
            .configure_mesh()
            .max_light_lines(1)
            .light_line_style(WHITE)
            .x_desc(self.axes[0])
            .y_desc(self.axes[1])
            .x_label_formatter(&|at| label(*at, log_x))
            .y_label_formatter(&|at| label(*at, self.log_y))
            .draw()?;
        for ((name, points), colour) in lines.iter().zip(COLOURS.iter().cycle()) {
            let points: Vec<_> =
                points.iter().map(|&(x, y)| (place(x, log_x), place(y, self.log_y))).collect();
            chart
                .draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?
                .label(name)
                .legend(|at| swatch(at, *colour));
            chart.draw_series(points.iter().map(|&at| Circle::new(at, 3, colour.filled())))?;
        }
        legend(&mut chart)
    }

    fn draw_bars(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
        series: &[String],
        groups: &[(String, Vec<f64>)],
    ) -> Drawn {
        let y = range(groups.iter().flat_map(|(_, values)| values).copied(), self.log_y, LEGEND);
        let floor = y.start;
        let mut chart = self.canvas(area, -0.5..groups.len() as f64 - 0.5, y)?;
        chart
            .configure_mesh()
            .max_light_lines(1)
            .light_line_style(WHITE)
            .disable_x_mesh()
            .x_labels(2 * groups.len() + 1)
            .x_desc(self.axes[0])
            .y_desc(self.axes[1])
            .x_label_formatter(&|at| {
                let group =
                    groups.get(at.round() as usize).filter(|_| (at - at.round()).abs() < 0.1);
                group.filter(|_| *at > -0.1).map_or_else(String::new, |(name, _)| name.clone())
            })
            .y_label_formatter(&|at| label(*at, self.log_y))
            .draw()?;
        let width = 0.8 / series.len().max(1) as f64;
        for (index, (name, colour)) in series.iter().zip(COLOURS.iter().cycle()).enumerate() {
            let bars = groups.iter().enumerate().filter_map(|(group, (_, values))| {
                let left = group as f64 - 0.4 + index as f64 * width;
                let top = place(*values.get(index)?, self.log_y);
                Some(Rectangle::new([(left, floor), (left + width * 0.95, top)], colour.filled()))
            });
            chart.draw_series(bars)?.label(name).legend(|at| swatch(at, *colour));
        }
        legend(&mut chart)
    }
}
