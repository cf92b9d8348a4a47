//! The site in a browser: from a disk, with and without scripts, wide and narrow, light and dark.

mod fixture;
mod support;

use serde_json::json;

use fixture::{hostile, realistic};
use support::{
    axe,
    browser::{Browser, View, WIDE},
    folder::Site,
};

/// Opens every page; nothing may be said on the console and nothing may be asked of the network.
async fn open_all(site: &Site, pages: &[String], view: View) {
    let browser = Browser::start(view).await;
    let root = site.url("");
    for page in pages {
        browser.client.goto(&site.url(page)).await.expect("a page");
        assert_eq!(
            browser.console().await,
            Vec::<String>::new(),
            "console of {page}"
        );
        if view.scripts {
            let asked = browser
                .run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
                .await;
            for name in asked
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|name| name.as_str())
            {
                assert!(
                    name.starts_with(&root) || name.starts_with("data:"),
                    "{page} asks for {name}"
                );
            }
        }
        let heading = browser
            .client
            .find(fantoccini::Locator::Css("main h1"))
            .await
            .expect("a heading");
        assert!(!heading.text().await.expect("text").is_empty(), "{page}");
    }
    browser.close().await;
}

#[tokio::test]
async fn every_page_opens_from_a_disk() {
    let site = Site::of(&realistic::tables());
    open_all(&site, &site.pages(), WIDE).await;
}

#[tokio::test]
async fn every_page_opens_without_scripts() {
    let site = Site::of(&realistic::tables());
    open_all(
        &site,
        &site.some_pages(),
        View {
            scripts: false,
            ..WIDE
        },
    )
    .await;
}

#[tokio::test]
async fn hostile_text_stays_text() {
    let site = Site::of(&hostile::tables());
    let pages: Vec<String> = site.some_pages();
    open_all(&site, &pages, WIDE).await;
    let browser = Browser::start(WIDE).await;
    browser
        .client
        .goto(&site.url("index.html"))
        .await
        .expect("a page");
    assert_eq!(
        browser
            .run("return document.querySelectorAll('img, main script:not([type])').length")
            .await,
        json!(0)
    );
    assert_eq!(
        browser.run("return document.querySelector('h1').textContent.includes('<script>alert(1)</script>')").await,
        json!(true)
    );
    browser.close().await;
}

#[tokio::test]
async fn charts_come_alive_and_follow_the_theme() {
    let site = Site::of(&realistic::tables());
    let browser = Browser::start(WIDE).await;
    browser
        .client
        .goto(&site.url("index.html"))
        .await
        .expect("a page");
    let height = "document.querySelector('[data-chart]').getBoundingClientRect().height";
    browser
        .until("document.querySelector('[data-live] canvas')")
        .await;
    let live = browser.run(&format!("return {height}")).await;
    browser.run("document.querySelector('.chart-live').remove(); document.querySelector('.replaced').classList.remove('replaced')").await;
    assert_eq!(
        browser.run(&format!("return {height}")).await,
        live,
        "nothing below a chart moves"
    );

    browser
        .client
        .goto(&site.url("jobs/inference.html"))
        .await
        .expect("a page");
    browser
        .until("document.querySelector('[data-live] canvas')")
        .await;
    let picture = "return document.querySelector('[data-live] canvas').toDataURL()";
    let light = browser.run(picture).await;
    browser
        .client
        .find(fantoccini::Locator::Id("theme"))
        .await
        .expect("a switch")
        .click()
        .await
        .expect("a click");
    assert_eq!(
        browser
            .run("return document.documentElement.dataset.theme")
            .await,
        json!("dark")
    );
    assert_ne!(browser.run(picture).await, light);
    // The choice goes along to the next page.
    browser
        .client
        .goto(&site.url("method.html"))
        .await
        .expect("a page");
    assert_eq!(
        browser
            .run("return document.documentElement.dataset.theme")
            .await,
        json!("dark")
    );
    assert_eq!(
        browser
            .run("return document.querySelector('#theme').textContent")
            .await,
        json!("Light theme")
    );
    assert_eq!(browser.console().await, Vec::<String>::new());
    browser.close().await;
}

/// How the live charts of a page stand: the width of each, how far it and its box reach, how high
/// a row is, what its labels need, and the least distance between two ticks.
const CHARTS: &str = "return [...document.querySelectorAll('.chart-live')].map((stage) => {
    const chart = echarts.getInstanceByDom(stage), option = chart.getOption();
    const [x, y, grid] = [option.xAxis[0], option.yAxis[0], option.grid[0]];
    const lines = Math.max(...y.data.map((label) => label.split('\\n').length));
    const row = (stage.clientHeight - grid.top - grid.bottom) / y.data.length;
    const places = x.axisLabel.customValues.map((tick) => chart.convertToPixel({ xAxisIndex: 0 }, tick));
    const gaps = places.slice(1).map((place, before) => place - places[before]);
    return {
        width: stage.clientWidth, box: stage.parentElement.scrollWidth, row, labels: 14 * lines,
        left: grid.left, ticks: places.length, gap: Math.min(...gaps, stage.clientWidth),
    };
})";

#[tokio::test]
async fn charts_fit_a_narrow_window_and_recover() {
    let site = Site::of(&realistic::tables());
    let browser = Browser::start(WIDE).await;
    let client = &browser.client;
    client
        .goto(&site.url("jobs/inference.html"))
        .await
        .expect("a page");
    let live = |condition: &str| {
        format!(
            "document.querySelectorAll('[data-live]').length === 2 && \
             [...document.querySelectorAll('[data-live]')].every((it) => {condition})"
        )
    };
    // One after the other: a chart that is scrolled past before the page has looked where it is stays a picture.
    let each = "[...document.querySelectorAll('[data-chart]')]\
                .every((it) => it.dataset.live || (it.scrollIntoView(), false))";
    browser.until(each).await;
    browser.until(&live("Number(it.dataset.live) > 1000")).await;
    let pictures = "return [...document.querySelectorAll('canvas')].map((it) => it.toDataURL())";
    let wide = browser.run(pictures).await;

    client.set_window_size(500, 900).await.expect("a window");
    browser.until(&live("Number(it.dataset.live) < 560")).await;
    let charts = browser.run(CHARTS).await;
    for chart in charts.as_array().expect("a list") {
        let number = |name: &str| chart[name].as_f64().expect("a number");
        assert!(number("box") <= number("width"), "{chart}");
        assert!(number("left") <= 120.0, "{chart}");
        assert!(number("row") > number("labels"), "{chart}");
        assert!(number("ticks") >= 3.0 && number("gap") >= 45.0, "{chart}");
    }

    client.set_window_size(1280, 900).await.expect("a window");
    browser.until(&live("Number(it.dataset.live) > 1000")).await;
    assert!(
        browser.run(pictures).await == wide,
        "as if it had never been narrow"
    );
    browser.close().await;
}

#[tokio::test]
async fn tables_fit_a_desktop_and_say_where_they_go_on() {
    let site = Site::of(&realistic::tables());
    let browser = Browser::start(WIDE).await;
    let client = &browser.client;
    let beyond = "return [...document.querySelectorAll('.scroll')]
        .filter((it) => it.scrollWidth > it.clientWidth)
        .map((it) => [it.getAttribute('aria-labelledby'), getComputedStyle(it).backgroundAttachment])";
    // A window of 1280 with a scroll bar.
    client.set_window_size(1265, 900).await.expect("a window");
    for page in ["jobs/inference.html", "jobs/engines_that_fail.html"] {
        client.goto(&site.url(page)).await.expect("a page");
        assert_eq!(browser.run(beyond).await, json!([]), "{page}");
    }
    // Covers move with the content, shadows stay: an edge is dark while there is more behind it.
    client.set_window_size(500, 900).await.expect("a window");
    let narrow = browser.run(beyond).await;
    let narrow = narrow.as_array().expect("a list");
    assert!(!narrow.is_empty());
    for table in narrow {
        assert_eq!(table[1], json!("local, local, scroll, scroll, scroll"));
    }
    browser.close().await;
}

#[tokio::test]
async fn without_scripts_the_picture_is_there_and_the_switch_is_not() {
    let site = Site::of(&realistic::tables());
    let browser = Browser::start(View {
        scripts: false,
        ..WIDE
    })
    .await;
    browser
        .client
        .goto(&site.url("index.html"))
        .await
        .expect("a page");
    let picture = browser
        .client
        .find(fantoccini::Locator::Css("svg.chart-static"))
        .await
        .expect("a picture");
    assert!(picture.is_displayed().await.expect("an answer"));
    let switch = browser
        .client
        .find(fantoccini::Locator::Id("theme"))
        .await
        .expect("a switch");
    assert!(!switch.is_displayed().await.expect("an answer"));
    browser.close().await;
}

#[tokio::test]
async fn tables_sort() {
    let site = Site::of(&realistic::tables());
    let browser = Browser::start(WIDE).await;
    browser
        .client
        .goto(&site.url("jobs/inference.html"))
        .await
        .expect("a page");
    let ratios = "return [...document.querySelectorAll('table.sortable')][0].tBodies[0].rows.length && \
        [...[...document.querySelectorAll('table.sortable')][0].tBodies[0].rows].map((row) => row.cells[3].dataset.value ?? null)";
    let head = browser
        .client
        .find(fantoccini::Locator::XPath("(//th/button)[4]"))
        .await
        .expect("a head");
    for ascending in [true, false] {
        head.click().await.expect("a click");
        let found = browser.run(ratios).await;
        let found: Vec<Option<f64>> = found
            .as_array()
            .expect("a list")
            .iter()
            .map(|value| value.as_str().map(|text| text.parse().expect("a number")))
            .collect();
        let numbers: Vec<f64> = found.iter().copied().flatten().collect();
        assert!(
            numbers.is_sorted_by(|a, b| if ascending { a <= b } else { a >= b }),
            "{found:?}"
        );
        assert!(
            found.iter().rev().take(2).all(Option::is_none),
            "what has no number is last: {found:?}"
        );
    }
    browser.close().await;
}

#[tokio::test]
async fn the_focus_can_be_seen_and_the_first_is_a_way_past_the_navigation() {
    let site = Site::of(&realistic::tables());
    let browser = Browser::start(WIDE).await;
    browser
        .client
        .goto(&site.url("jobs/inference.html"))
        .await
        .expect("a page");
    let body = browser
        .client
        .find(fantoccini::Locator::Css("body"))
        .await
        .expect("a body");
    for step in 0..14 {
        body.send_keys("\u{e004}").await.expect("a key");
        let seen = browser
            .run(
                "const it = document.activeElement, style = getComputedStyle(it), box = it.getBoundingClientRect();
                 return [it.className, style.outlineStyle, parseFloat(style.outlineWidth), box.top >= 0 && box.width > 0];",
            )
            .await;
        if step == 0 {
            assert_eq!(seen[0], json!("skip"));
        }
        assert_eq!(seen[1], json!("solid"), "{seen}");
        assert!(seen[2].as_f64() >= Some(2.0), "{seen}");
        assert_eq!(seen[3], json!(true), "{seen}");
    }
    browser.close().await;
}

/// What axe finds on some pages, looked at in one way.
async fn check(site: &Site, view: View) {
    let browser = Browser::start(view).await;
    for page in site.some_pages() {
        browser.client.goto(&site.url(&page)).await.expect("a page");
        assert_eq!(
            axe::violations(&browser).await,
            Vec::<String>::new(),
            "{page}, {view:?}"
        );
        if let Some(width) = view.phone {
            let wide = browser
                .run("return document.documentElement.scrollWidth")
                .await;
            assert!(
                wide.as_u64() <= Some(u64::from(width)),
                "{page} is {wide} wide on a screen of {width}"
            );
        }
    }
    browser.close().await;
}

#[tokio::test]
async fn pages_are_accessible_in_the_light() {
    check(&Site::of(&realistic::tables()), WIDE).await;
}

#[tokio::test]
async fn pages_are_accessible_in_the_dark() {
    check(&Site::of(&realistic::tables()), View { dark: true, ..WIDE }).await;
}

#[tokio::test]
async fn pages_are_accessible_on_a_telephone() {
    check(
        &Site::of(&realistic::tables()),
        View {
            phone: Some(360),
            ..WIDE
        },
    )
    .await;
}

#[tokio::test]
async fn hostile_pages_are_accessible_on_a_telephone() {
    check(
        &Site::of(&hostile::tables()),
        View {
            phone: Some(360),
            ..WIDE
        },
    )
    .await;
}

/// Not a test: takes the picture of the README.
///
/// `PHOTOFINISH_PICTURE=docs/site.png cargo test -p photofinish-report --test browser -- --ignored`;
/// `PHOTOFINISH_SITE` names a rendered site, without it a site made by hand is shown.
#[tokio::test]
#[ignore = "writes a picture"]
async fn take_a_picture() {
    let made = Site::of(&realistic::tables());
    let root = std::env::var_os("PHOTOFINISH_SITE").map_or_else(|| made.root(), Into::into);
    let picture =
        std::env::var_os("PHOTOFINISH_PICTURE").expect("PHOTOFINISH_PICTURE names a file");
    let page = std::path::absolute(root.join("index.html")).expect("a path");
    let browser = Browser::start(WIDE).await;
    browser
        .client
        .set_window_size(1280, 1320)
        .await
        .expect("a window");
    let page = url::Url::from_file_path(page).expect("an absolute path");
    browser.client.goto(page.as_str()).await.expect("a page");
    browser.until("!document.querySelector('[data-chart]') || document.querySelector('[data-live] canvas')").await;
    let png = browser.client.screenshot().await.expect("a picture");
    std::fs::write(picture, png).expect("a file");
    browser.close().await;
}
