/**
 * All that the package takes from its platform: it is compiled against these names alone, so that
 * it runs wherever they are. Each is a web standard that edge runtimes have (WinterTC's minimum
 * common API); none is Node's. What is added here belongs into the README, too.
 */

interface AbortSignal {}
declare class AbortController {
  readonly signal: AbortSignal;
  abort(): void;
}
interface ReadableStream<T> {
  getReader(): {
    read(): Promise<{ done: false; value: T } | { done: true; value: undefined }>;
    cancel(): Promise<void>;
  };
}
declare const ReadableStream: {
  new (source: {
    start(controller: { enqueue(chunk: Uint8Array): void; close(): void }): void;
  }): ReadableStream<Uint8Array>;
};
interface Headers {
  get(name: string): string | null;
}
interface RequestInit {
  method?: string;
  headers?: { readonly [name: string]: string };
  body?: string | ReadableStream<Uint8Array>;
  redirect?: "manual";
  signal?: AbortSignal;
}
interface Response {
  readonly type: string;
  readonly status: number;
  readonly headers: Headers;
  readonly body: ReadableStream<Uint8Array> | null;
}
declare function fetch(url: string, init: RequestInit): Promise<Response>;
declare function setTimeout(callback: () => void, ms: number): unknown;
declare function clearTimeout(timer: unknown): void;
declare function btoa(binary: string): string;
declare function atob(text: string): string;
declare const performance: { now(): number };
declare const crypto: {
  getRandomValues(bytes: Uint8Array): Uint8Array;
  readonly subtle: { digest(algorithm: "SHA-256", data: Uint8Array): Promise<ArrayBuffer> };
};
declare class TextEncoder {
  encode(text: string): Uint8Array;
}
declare class TextDecoder {
  constructor(label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean });
  decode(data?: Uint8Array, options?: { stream?: boolean }): string;
}
declare class URL {
  readonly hostname: string;
  constructor(url: string);
}
