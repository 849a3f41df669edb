//! Draws: one look for all pictures, told apart in grey too, by shape as well as by color.

use std::error::Error;

use plotters::coord::Shift;
use plotters::prelude::*;

/// What is drawn on.
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

pub(crate) const FONT: &str = "sans-serif";
pub(crate) const GREY: RGBColor = RGBColor(120, 120, 120);
pub(crate) const PALE: RGBColor = RGBColor(205, 205, 205);
pub(crate) const RED: RGBColor = RGBColor(190, 30, 45);

/// How a series looks: a color of the Okabe–Ito palette, which the color-blind tell apart, and the shape of its marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Square,
    Triangle,
    Cross,
    Diamond,
}

impl Look {
    pub(crate) const ALL: [Self; 4] = [Self::Square, Self::Triangle, Self::Cross, Self::Diamond];

    pub(crate) const fn colour(self) -> RGBColor {
        match self {
            Self::Square => RGBColor(0, 0, 0),
            Self::Triangle => RGBColor(213, 94, 0),
            Self::Cross => RGBColor(0, 114, 178),
            Self::Diamond => RGBColor(86, 180, 233),
        }
    }

    /// The mark's outline, in pixels around its point.
    fn mark(self) -> PathElement<(i32, i32)> {
        let outline: &[(i32, i32)] = match self {
            Self::Square => &[(-2, -2), (2, -2), (2, 2), (-2, 2), (-2, -2)],
            Self::Triangle => &[(-4, 3), (4, 3), (0, -4), (-4, 3)],
            Self::Cross => &[(-4, -4), (4, 4), (0, 0), (4, -4), (-4, 4)],
            Self::Diamond => &[(-4, 0), (0, -5), (4, 0), (0, 5), (-4, 0)],
        };
        PathElement::new(outline, self.colour().stroke_width(2))
    }
}

/// A line with marks.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    pub(crate) label: String,
    pub(crate) look: Look,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A number to compare with, over the whole width.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    pub(crate) label: &'static str,
    pub(crate) at: f64,
}

/// What a panel shows, both axes logarithmic.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    pub(crate) title: &'static str,
    pub(crate) across: &'static str,
    pub(crate) up: &'static str,
    pub(crate) range: [std::ops::Range<f64>; 2],
    pub(crate) level: Level,
    pub(crate) curves: Vec<Curve>,
    pub(crate) legend: SeriesLabelPosition,
}

/// A picture of this many pixels.
///
/// # Errors
/// What drawing runs into.
pub(crate) fn picture(
    size: (u32, u32),
    draw: impl FnOnce(&Area<'_>) -> Result<(), Box<dyn Error>>,
) -> Result<String, Box<dyn Error>> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        draw(&root)?;
        root.present()?;
    }
    // Whole pixels are enough, so is one line end.
    Ok(svg.replace(" opacity=\"1\"", ""))
}

/// Draws curves.
///
/// # Errors
/// What drawing runs into.
pub(crate) fn curves(area: &Area<'_>, panel: &Panel) -> Result<(), Box<dyn Error>> {
    let [across, up] = panel.range.clone();
    let mut chart = ChartBuilder::on(area)
        .caption(panel.title, (FONT, 15))
        .margin(10)
        .margin_right(18)
        .x_label_area_size(42)
        .y_label_area_size(62)
        .build_cartesian_2d(across.clone().log_scale(), up.clone().log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(PALE.stroke_width(1))
        .x_desc(panel.across)
        .y_desc(panel.up)
        .x_label_formatter(&|x| plain(*x))
        .y_label_formatter(&|y| plain(*y))
        .label_style((FONT, 12))
        .axis_desc_style((FONT, 13))
        .draw()?;
    let Level { label, at } = panel.level;
    let level = [(across.start, at), (across.end, at)];
    let style = RED.stroke_width(2);
    chart
        .draw_series(std::iter::once(PathElement::new(level.to_vec(), style)))?
        .label(label)
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 22, y)], style));
    for Curve {
        label,
        look,
        points,
    } in &panel.curves
    {
        let look = *look;
        let drawn: Vec<(f64, f64)> = points
            .iter()
            .copied()
            .filter(|(_, y)| up.contains(y))
            .collect();
        chart.draw_series(std::iter::once(PathElement::new(
            drawn.clone(),
            look.colour().stroke_width(2),
        )))?;
        chart
            .draw_series(
                drawn
                    .into_iter()
                    .map(|point| EmptyElement::at(point) + look.mark()),
            )?
            .label(label.as_str())
            .legend(move |(x, y)| {
                let line = [(-11, 0), (11, 0)];
                EmptyElement::at((x + 11, y))
                    + PathElement::new(line, look.colour().stroke_width(2))
                    + look.mark()
            });
    }
    chart
        .configure_series_labels()
        .position(panel.legend.clone())
        .margin(8)
        .legend_area_size(26)
        .background_style(WHITE.filled())
        .border_style(PALE)
        .label_font((FONT, 12))
        .draw()?;
    Ok(())
}

/// A number without zeros that say nothing.
fn plain(number: f64) -> String {
    let text = format!("{number:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
