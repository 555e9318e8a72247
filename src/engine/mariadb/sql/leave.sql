-- SPDX-License-Identifier: MIT
--
-- A client that closes in order: nothing of it remains.
CREATE PROCEDURE `~leave` (IN p_client BIGINT)
  MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DELETE FROM `~clients` WHERE client = p_client;
  DELETE FROM `~letters` WHERE client = p_client;
END
