// Types of roofline.js, for TypeScript.

export interface RooflineDocument {
  device: string;
  title: string;
  bandwidths: { level: string; gbps: number }[];
  peaks: { name: string; gflops: number }[];
  axes: { intensity: [number, number]; gflops: [number, number] };
  points: {
    name: string; series: string; kind: string; level: string;
    intensity: number; gflops: number; attainable: number; low: number | null; high: number | null;
  }[];
  unplotted: string[];
}
export interface RooflineOptions { levels?: string[]; width?: number; height?: number }
export interface Roofline {
  element: Element;
  update(document: RooflineDocument, options?: RooflineOptions): void;
  svg(): string;
}
export const STYLE: string;
export function draw(document: RooflineDocument, options?: RooflineOptions): string;
export function exported(document: RooflineDocument, options?: RooflineOptions, look?: string): string;
export function mount(element: Element, document: RooflineDocument, options?: RooflineOptions): Roofline;
