/** Fails unless a call was answered with a status. */
export function expect(what: string, response: Response | undefined, status: number): void {
  if (response?.status !== status) {
    throw new Error(`${what}: the status is ${response?.status}, want ${status}`);
  }
}

export const { STINT_CHECK_URL = "", STINT_ADMIN_URL = "", STINT_ADMIN_TOKEN = "" } = process.env;
export const headers = { Authorization: `Bearer ${STINT_ADMIN_TOKEN}` };
