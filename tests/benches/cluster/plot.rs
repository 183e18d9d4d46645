//! Throughput and latency against callers, as SVG: one file a workload.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use plotters::{
    chart::{ChartBuilder, SeriesLabelPosition},
    coord::Shift,
    drawing::{DrawingArea, IntoDrawingArea as _},
    element::PathElement,
    prelude::{IntoLogRange as _, SVGBackend},
    series::LineSeries,
    style::{BLACK, Color as _, Palette as _, Palette99, WHITE},
};

use crate::{cell::Cell, measure::figures::Figures, product::Product, workload::Workload};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws what has at least two numbers of callers; the files that were written.
pub(crate) fn draw(cells: &[Cell], directory: &Path) -> Result<Vec<PathBuf>> {
    let mut workloads: Vec<Workload> = cells.iter().map(|cell| cell.workload).collect();
    workloads.dedup();
    let mut files = Vec::new();
    for workload in workloads {
        let cells: Vec<&Cell> = cells
            .iter()
            .filter(|cell| cell.workload == workload)
            .collect();
        let mut callers: Vec<usize> = cells.iter().map(|cell| cell.callers).collect();
        callers.sort_unstable();
        callers.dedup();
        if callers.len() < 2 {
            continue;
        }
        let name = workload.title().split(' ').next().unwrap_or_default();
        let file = directory.join(format!("{}.svg", name.to_lowercase()));
        let area = SVGBackend::new(&file, (1000, 420)).into_drawing_area();
        area.fill(&WHITE)?;
        let (left, right) = area.split_horizontally(500);
        let title = workload.title();
        chart(
            &left,
            &cells,
            &format!("{title}: operations a second"),
            |f| f.operations_per_second,
        )?;
        chart(&right, &cells, &format!("{title}: p99, ms"), |f| f.p99_ms)?;
        area.present()?;
        drop((left, right, area));
        files.push(file);
    }
    Ok(files)
}

/// Both axes are logarithmic.
fn chart(area: &Area<'_>, cells: &[&Cell], title: &str, figure: fn(&Figures) -> f64) -> Result<()> {
    let callers = |cell: &Cell| f64::from(u32::try_from(cell.callers).unwrap_or(u32::MAX));
    let range = |values: &mut dyn Iterator<Item = f64>| -> Result<(f64, f64)> {
        let ends = values.fold(None, |ends: Option<(f64, f64)>, value| {
            let (low, high) = ends.unwrap_or((value, value));
            Some((low.min(value), high.max(value)))
        });
        let (low, high) = ends.context("there are cells")?;
        Ok((low.max(1e-3) * 0.8, high.max(1e-3) * 1.25))
    };
    let x = range(&mut cells.iter().map(|cell| callers(cell)))?;
    let y = range(&mut cells.iter().map(|cell| figure(&cell.median)))?;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(34)
        .y_label_area_size(64)
        .build_cartesian_2d((x.0..x.1).log_scale(), (y.0..y.1).log_scale())?;
    chart.configure_mesh().x_desc("callers").draw()?;
    let mut products: Vec<Product> = cells.iter().map(|cell| cell.product).collect();
    products.sort();
    products.dedup();
    for (number, product) in products.into_iter().enumerate() {
        let colour = Palette99::pick(number).stroke_width(2);
        let of_product = cells.iter().filter(|cell| cell.product == product);
        let points = of_product.map(|cell| (callers(cell), figure(&cell.median)));
        chart
            .draw_series(LineSeries::new(points, colour).point_size(3))?
            .label(product.name())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    Ok(())
}
