// Opens a page in Chromium as a reader would, and prints what was seen as JSON: node browse.cjs PAGE [SCREENSHOT_PREFIX]
const { chromium } = require("playwright-core");
const { mkdtempSync, rmSync } = require("fs");
const { tmpdir } = require("os");
const { join } = require("path");
const { pathToFileURL } = require("url");

const [file, prefix] = process.argv.slice(2);
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

async function main() {
  const profile = mkdtempSync(join(tmpdir(), "weft-browse-"));
  const context = await chromium.launchPersistentContext(profile, { executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: FLAGS, viewport: { width: 1200, height: 900 } });
  try {
    console.log(JSON.stringify(await look(context)));
  } finally {
    await context.close();
    rmSync(profile, { recursive: true, force: true });
  }
}

async function look(context) {
  const page = await context.newPage();
  const seen = { errors: [], requests: [] };
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) seen.errors.push(message.text()); });
  page.on("pageerror", (error) => seen.errors.push(String(error)));
  page.on("request", (request) => seen.requests.push(request.url()));
  const start = Date.now();
  await page.goto(pathToFileURL(file).href);
  await page.waitForSelector("html[data-ready=true]");
  seen.milliseconds = Date.now() - start;
  seen.requests = seen.requests.filter((url) => url !== pathToFileURL(file).href && !url.startsWith("data:"));
  seen.views = await page.$$eval("section.view", (all) => all.map((each) => each.dataset.view).filter(Boolean));
  seen.plots = await page.$$eval("section.view h3", (all) => all.map((each) => each.textContent));
  seen.shift = await page.evaluate(() => new Promise((done) => {
    let sum = 0;
    new PerformanceObserver((list) => { for (const each of list.getEntries()) sum += each.value; }).observe({ type: "layout-shift", buffered: true });
    setTimeout(() => done(sum), 50);
  }));
  await interact(page, seen);
  for (const [name, scheme, width, zoom] of [["light", "light", 1200, 1], ["dark", "dark", 1200, 1], ["narrow", "light", 360, 1], ["zoomed", "light", 1200, 2]]) {
    await page.emulateMedia({ colorScheme: scheme });
    await page.setViewportSize({ width: Math.round(width / zoom), height: 900 });
    seen[`overflow_${name}`] = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    seen[`ground_${name}`] = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    if (prefix) await page.screenshot({ path: `${prefix}-${name}.png`, fullPage: true });
  }
  await page.emulateMedia({ media: "print" });
  seen.printed_navigation = await page.evaluate(() => getComputedStyle(document.getElementById("contents")).display);
  if (prefix) await page.pdf({ path: `${prefix}-print.pdf` });
  return seen;
}

// Hover, focus, arrow keys, another map, another line, a sorted table.
async function interact(page, seen) {
  const heat = page.locator(".heat").first();
  if (await heat.count()) {
    const symbol = heat.locator(".symbols button").first();
    await symbol.hover();
    seen.hovered = await heat.locator(".readout").textContent();
    seen.linked = await heat.locator(".symbols").nth(1).locator("button").evaluateAll((all) => all.map((each) => Number(each.style.getPropertyValue("--weight"))));
    await page.mouse.move(0, 0);
    seen.left = await heat.locator(".readout").textContent();
    await heat.locator("svg").focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowRight");
    seen.walked = await heat.locator(".readout").textContent();
    const list = heat.locator("select");
    if (await list.count()) { await list.selectOption({ index: 1 }); seen.chosen = await heat.locator("svg").getAttribute("aria-label"); }
  }
  const head = page.locator("th button").first();
  if (await head.count()) { await head.click(); seen.sorted = await page.locator("th").first().getAttribute("aria-sort"); }
  const open = page.locator("button.open").nth(2);
  if (await open.count()) { const name = await open.textContent(); await open.click(); seen.opened = [name, await page.locator("#line h2").first().textContent()]; }
  const next = page.getByRole("button", { name: "next →" });
  if (await next.count()) { await next.click(); seen.second = await page.locator("#line h2").first().textContent(); }
}

main().catch((error) => { console.error(error); process.exit(1); });
