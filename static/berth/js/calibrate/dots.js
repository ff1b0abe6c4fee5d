/* Thousands of dots on a canvas in a few milliseconds: coverage is summed per pixel and coloured once.

   Without a graphics card, drawing each dot with canvas calls takes ten times as long. */
const QUARTERS = 4; // positions are rounded to quarters of a pixel
const stamps = new Map();

/* Coverage masks of a dot, one per quarter-pixel offset of its centre. */
function stampsOf(radius) {
  const key = radius.toFixed(2);
  if (stamps.has(key)) return stamps.get(key);
  const reach = Math.ceil(radius + 1);
  const side = 2 * reach + 1;
  const masks = [];
  for (let fy = 0; fy < QUARTERS; fy += 1) {
    for (let fx = 0; fx < QUARTERS; fx += 1) {
      const mask = new Float32Array(side * side);
      for (let y = 0; y < side; y += 1) {
        for (let x = 0; x < side; x += 1) {
          const distance = Math.hypot(x - reach - fx / QUARTERS, y - reach - fy / QUARTERS);
          mask[y * side + x] = Math.max(0, Math.min(1, radius + 0.5 - distance));
        }
      }
      masks.push(mask);
    }
  }
  const stamp = { reach, side, masks };
  stamps.set(key, stamp);
  return stamp;
}

/* Coverage by pixel, in [0, 1]. `spots` are positions in px, x and y alternating. */
function covered(spots, opacity, radius, width, height) {
  const { reach, side, masks } = stampsOf(radius);
  const sum = new Float32Array(width * height);
  for (let k = 0; k < spots.length; k += 2) {
    const [x, y] = [Math.round(spots[k] * QUARTERS), Math.round(spots[k + 1] * QUARTERS)];
    const [left, top] = [Math.floor(x / QUARTERS) - reach, Math.floor(y / QUARTERS) - reach];
    if (left < 0 || top < 0 || left + side > width || top + side > height) continue;
    const mask = masks[(y & (QUARTERS - 1)) * QUARTERS + (x & (QUARTERS - 1))];
    for (let row = 0; row < side; row += 1) {
      let at = (top + row) * width + left;
      for (let m = row * side; m < (row + 1) * side; m += 1, at += 1) {
        if (mask[m]) sum[at] += mask[m] * opacity * (1 - sum[at]);
      }
    }
  }
  return sum;
}

const rgb = (hex) => [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));

/* Draw two layers of dots, each { spots, opacity, colour }. */
export function drawDots(canvas, radius, behind, front) {
  const { width, height } = canvas;
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(width, height);
  const low = covered(behind.spots, behind.opacity, radius, width, height);
  const high = front.spots.length ? covered(front.spots, front.opacity, radius, width, height) : null;
  const [a, b] = [rgb(behind.colour), rgb(front.colour)];
  const { data } = image;
  for (let i = 0, at = 0; i < low.length; i += 1, at += 4) {
    const above = high ? high[i] : 0;
    const below = low[i] * (1 - above);
    const all = above + below;
    if (!all) continue;
    for (let c = 0; c < 3; c += 1) data[at + c] = (b[c] * above + a[c] * below) / all;
    data[at + 3] = 255 * all;
  }
  pen.putImageData(image, 0, 0);
}
