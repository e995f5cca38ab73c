// What the scripts use of Node.js.
declare const process: { env: Record<string, string | undefined>; exitCode?: number };
