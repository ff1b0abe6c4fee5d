/* Export of the three screens as an image. */

import { byId, css } from "../dom.js";
import { frames } from "./frame.js";

/* The three screens next to each other as a PNG blob. */
export async function screensImage() {
  const [gap, head] = [24, 36];
  const width = frames.reduce((sum, frame) => sum + frame.width + gap, gap);
  const height = Math.max(...frames.map((frame) => frame.height)) + head + gap;
  const canvas = document.createElement("canvas");
  canvas.width = width * 2;
  canvas.height = height * 2;
  const pen = canvas.getContext("2d");
  pen.scale(2, 2);
  pen.fillStyle = css("bg");
  pen.fillRect(0, 0, width, height);
  pen.fillStyle = css("text");
  pen.font = `600 14px ${css("font-sans")}`;
  pen.fillText(byId("cal-title").textContent, gap, 24);
  let left = gap;
  for (const frame of frames) {
    pen.drawImage(frame.base, left, head, frame.width, frame.height);
    pen.drawImage(frame.cloud, left, head, frame.width, frame.height);
    pen.drawImage(await svgImage(frame), left, head, frame.width, frame.height);
    left += frame.width + gap;
  }
  return new Promise((resolve) => {
    canvas.toBlob(resolve, "image/png");
  });
}

const STYLED = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-opacity",
  "stroke-width",
  "stroke-dasharray",
  "stroke-linejoin",
  "font-size",
  "font-family",
  "font-weight",
  "text-anchor",
  "opacity",
  "paint-order",
  "visibility",
];

/* The SVG of a screen as an image, with its styles as attributes: an image has no style sheet. */
async function svgImage(frame) {
  const copy = frame.svg.cloneNode(true);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", frame.width);
  const [from, to] = [[...frame.svg.querySelectorAll("*")], [...copy.querySelectorAll("*")]];
  from.forEach((node, k) => {
    const style = getComputedStyle(node);
    for (const name of STYLED) to[k].setAttribute(name, style.getPropertyValue(name));
  });
  const image = new Image();
  image.src = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" }));
  await image.decode();
  URL.revokeObjectURL(image.src);
  return image;
}
